"""The header x-amz-expiration."""

from __future__ import annotations

from lifecycle_cases import DAY, MARKER_CLEANUP, MIDNIGHT, expiration, noncurrent, rule, rules, transition, version

from tidegate.core.lifecycle.expiration_header import expiration_header

# The day with the number 20,000 is 4 October 2024.


def header(*given, key="logs/x", **fields):
    return expiration_header(rules(*given), key, version(**fields))


def test_it_names_the_midnight_and_the_rule():
    assert header(rule(expiration(1), id="old-logs"), created=MIDNIGHT + 1) == (
        'expiry-date="Sun, 06 Oct 2024 00:00:00 GMT", rule-id="old-logs"'
    )
    assert header(rule(expiration(1), id="old-logs"), created=MIDNIGHT) == (
        'expiry-date="Sat, 05 Oct 2024 00:00:00 GMT", rule-id="old-logs"'
    )


def test_the_earliest_rule_counts_and_the_first_of_equals():
    given = (rule(expiration(9), id="late"), rule(expiration(2), id="first"), rule(expiration(2), id="second"))
    assert header(*given).endswith('rule-id="first"')
    dated = rule(expiration(date=MIDNIGHT // 10**9), id="dated")
    assert header(*given, dated) == 'expiry-date="Fri, 04 Oct 2024 00:00:00 GMT", rule-id="dated"'


def test_a_rule_id_is_url_encoded():
    assert header(rule(expiration(1), id='a b"/é')).endswith('rule-id="a%20b%22%2F%C3%A9"')


def test_rules_that_do_not_match_or_do_not_expire_the_current_version_are_no_reason():
    others = rule(transition(1), noncurrent(1), MARKER_CLEANUP, id="others")
    assert header(others, rule(expiration(1), prefix="x"), rule(expiration(1), enabled=False)) is None
    tagged = rule(expiration(1), tags=(("a", "1"),))
    assert header(tagged) is None
    assert header(tagged, tags=(("a", "1"),)) is not None
    small = rule(expiration(1), size_less_than=10)
    assert header(small, size=10) is None
    assert header(small, size=9) is not None


def test_a_date_beyond_the_calendar_is_left_out():
    assert header(rule(expiration(2**31 - 1))) is None
    assert header(rule(expiration(365_000)), created=MIDNIGHT + DAY).startswith('expiry-date="')
