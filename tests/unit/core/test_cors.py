"""Cross-origin rules: read, kept, matched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.core.cors import CorsRule, CorsRules, preflight
from tidegate.core.cors_xml import cors_xml, parse_cors
from tidegate.core.s3errors import S3Error

ORIGIN = "https://app.example.com"


def rule(content: str = "", origin: str = "*", method: str = "GET") -> str:
    needed = f"<AllowedOrigin>{origin}</AllowedOrigin><AllowedMethod>{method}</AllowedMethod>"
    return f"<CORSRule>{needed}{content}</CORSRule>"


def document(*rules: str) -> bytes:
    return f"<CORSConfiguration>{''.join(rules)}</CORSConfiguration>".encode()


def asked(rules: CorsRules | None, origin: str = ORIGIN, method: str = "PUT", headers: str = "") -> dict[str, str]:
    return preflight(rules, origin=origin, method=method, headers=headers)


def code_of(call, *arguments, **options) -> str:
    with pytest.raises(S3Error) as refused:
        call(*arguments, **options)
    return refused.value.code


@pytest.mark.parametrize(
    ("pattern", "origin", "matches"),
    [
        (ORIGIN, ORIGIN, True),
        (ORIGIN, "https://app.example.com:8443", False),
        (ORIGIN, "http://app.example.com", False),
        (ORIGIN, "https://APP.example.com", False),
        ("*", "null", True),
        ("https://*.example.com", ORIGIN, True),
        ("https://*.example.com", "https://.example.com", True),
        ("https://*.example.com", "https://example.com", False),
        ("https://*.example.com", "https://app.example.com.evil.test", False),
        ("https://*", "https://", True),
        ("aba*aba", "aba", False),
        ("aba*aba", "abaaba", True),
        ("http://a.b", "http://axb", False),
    ],
)
def test_one_asterisk_stands_for_any_characters(pattern: str, origin: str, matches: bool) -> None:
    rules = CorsRules((CorsRule((pattern,), ("PUT",)),))
    assert bool(rules.of_request(origin, "PUT")) is matches


def test_a_reply_names_the_origin_or_everybody() -> None:
    named = CorsRules((CorsRule((ORIGIN, "https://other"), ("GET", "PUT"), exposed=("ETag", "x-amz-x"), max_age=0),))
    assert named.of_request(ORIGIN, "GET") == {
        "Access-Control-Allow-Origin": ORIGIN,
        "Access-Control-Allow-Methods": "GET, PUT",
        "Access-Control-Expose-Headers": "ETag, x-amz-x",
        "Access-Control-Max-Age": "0",
        "Access-Control-Allow-Credentials": "true",
        "Vary": "Origin, Access-Control-Request-Headers, Access-Control-Request-Method",
    }
    assert named.of_request(ORIGIN, "DELETE") == {}
    assert named.of_request("https://third", "GET") == {}
    everybody = CorsRules((CorsRule((ORIGIN, "*"), ("GET",)),)).of_request(ORIGIN, "GET")
    assert everybody["Access-Control-Allow-Origin"] == "*"
    assert "Access-Control-Allow-Credentials" not in everybody


def test_a_preflight_gets_the_first_rule_that_matches_in_everything() -> None:
    rules = CorsRules(
        (
            CorsRule((ORIGIN,), ("GET",), max_age=1),
            CorsRule((ORIGIN,), ("PUT",), ("content-type",), max_age=2),
            CorsRule(("*",), ("PUT",), ("X-Amz-*", "Content-Type"), max_age=3),
            CorsRule((ORIGIN,), ("PUT",), ("*",), max_age=4),
        )
    )
    assert asked(rules)["Access-Control-Max-Age"] == "2"
    assert asked(rules, headers="Content-Type")["Access-Control-Max-Age"] == "2"
    third = asked(rules, headers="content-type, X-AMZ-Date,,")
    assert (third["Access-Control-Max-Age"], third["Access-Control-Allow-Origin"]) == ("3", "*")
    assert third["Access-Control-Allow-Headers"] == "content-type, x-amz-date"
    assert asked(rules, headers="x-other")["Access-Control-Max-Age"] == "4"
    assert "Access-Control-Allow-Headers" not in asked(rules)


def test_what_no_rule_allows_is_forbidden_and_what_lacks_something_is_bad() -> None:
    rules = CorsRules((CorsRule((ORIGIN,), ("PUT",), ("x-a",)),))
    for options in ({"method": "GET"}, {"origin": "https://x"}, {"headers": "x-a, x-b"}, {"method": "put"}):
        with pytest.raises(S3Error) as refused:
            asked(rules, **options)
        assert (refused.value.status, refused.value.code) == (403, "AccessForbidden")
        assert refused.value.message.startswith("CORSResponse: This CORS request is not allowed. ")
    assert code_of(asked, None) == "AccessForbidden"
    for options in ({"origin": ""}, {"method": ""}):
        assert code_of(asked, rules, **options) == "BadRequest"


def test_rules_survive_the_tables_and_are_shown_as_they_were_put() -> None:
    content = (
        "<ID>first é</ID><AllowedHeader>x-*</AllowedHeader><AllowedHeader>a</AllowedHeader><ExposeHeader>ETag"
        "</ExposeHeader><MaxAgeSeconds>3000</MaxAgeSeconds>"
    )
    rules = parse_cors(document(rule(content, origin="http://*.test"), rule(method="HEAD")))
    assert rules.rules[0] == CorsRule(("http://*.test",), ("GET",), ("x-*", "a"), ("ETag",), 3000, "first é")
    assert CorsRules.from_json(rules.to_json()) == rules
    assert parse_cors(cors_xml(rules)) == rules
    assert rules.digest() != parse_cors(document(rule())).digest()


@pytest.mark.parametrize(
    ("code", "body"),
    [
        ("MalformedXML", document()),
        ("MalformedXML", b"{}"),
        ("MissingRequestBodyError", b" "),
        ("MalformedXML", b"<Tagging/>"),
        ("MalformedXML", document("<Rule/>")),
        ("MalformedXML", document("<CORSRule><AllowedOrigin>*</AllowedOrigin></CORSRule>")),
        ("MalformedXML", document("<CORSRule><AllowedMethod>GET</AllowedMethod></CORSRule>")),
        ("MalformedXML", document(rule("<Other/>"))),
        ("MalformedXML", document(rule("<ID>a</ID><ID>b</ID>"))),
        ("MalformedXML", document(rule("<MaxAgeSeconds>-1</MaxAgeSeconds>"))),
        ("MalformedXML", document(rule("<MaxAgeSeconds>9999999999</MaxAgeSeconds>"))),
        ("MalformedXML", document(rule("<AllowedHeader><b/></AllowedHeader>"))),
        ("InvalidRequest", document(rule(method="OPTIONS"))),
        ("InvalidRequest", document(rule(method="get"))),
        ("InvalidRequest", document(rule(origin="http://*.*"))),
        ("InvalidRequest", document(rule(origin=""))),
        ("InvalidRequest", document(rule(origin="a&#10;b"))),
        ("InvalidRequest", document(rule("<AllowedHeader>*x*</AllowedHeader>"))),
        ("InvalidRequest", document(rule("<AllowedHeader>a: b</AllowedHeader>"))),
        ("InvalidRequest", document(rule("<ExposeHeader>*</ExposeHeader>"))),
        ("InvalidRequest", document(rule("<ExposeHeader>a&#13;b</ExposeHeader>"))),
        ("InvalidRequest", document(rule(f"<ID>{'i' * 256}</ID>"))),
        ("InvalidRequest", document(*[rule()] * 101)),
    ],
)
def test_what_s3_refuses_is_refused(code: str, body: bytes) -> None:
    assert code_of(parse_cors, body) == code


def test_the_bounds_themselves_are_allowed() -> None:
    assert len(parse_cors(document(*[rule()] * 100)).rules) == 100
    assert len(parse_cors(document(rule(f"<ID>{'i' * 255}</ID>"))).rules[0].id) == 255


@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_a_pattern_matches_whatever_stands_in_place_of_its_asterisk(start: str, middle: str, end: str) -> None:
    pattern = start.replace("*", "") + "*" + end.replace("*", "")
    origin = pattern.replace("*", middle)
    assert CorsRule((pattern,), ("GET",)).matches(origin, "GET", ())
