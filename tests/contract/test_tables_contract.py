"""The behaviour of `Tables`, the same over every adapter and its real server."""

from __future__ import annotations

import random
import threading
import time

import pytest
from contract_processes import TablesAddress, children, claim_keys, count_up

from tidegate.core.errors import InvalidInput
from tidegate.ports import Tables

AWKWARD_KEYS = [
    "a",
    "a:",
    "a:b:c",
    "a;",
    "a\nb",
    "a/b//c",
    "a\x00b",
    "aé",
    "a\uffff",
    "a😀",
    "a😀:",
    "b" * 1024,
    "ÿ" * 512,
    "*[?]{x}",
    " ",
    "\x7f",
]
SHORT = 0.2


def wait_past(seconds: float) -> None:
    time.sleep(seconds + 0.05)


def by_bytes(keys: list[str]) -> list[str]:
    return sorted(keys, key=str.encode)


def test_absent_key_is_none(tables: Tables) -> None:
    assert tables.get("nothing") is None


@pytest.mark.parametrize("key", AWKWARD_KEYS, ids=range(len(AWKWARD_KEYS)))
def test_any_key_holds_any_text(tables: Tables, key: str) -> None:
    value = f"{key}\n\x00\t😀"
    tables.put(key, value)
    assert tables.get(key) == value
    assert tables.scan(key) == [(key, value)]
    assert tables.delete(key)
    assert tables.get(key) is None


def test_put_replaces(tables: Tables) -> None:
    tables.put("k", "1")
    tables.put("k", "2")
    assert tables.get("k") == "2"
    assert tables.scan("") == [("k", "2")]


def test_empty_value_is_not_absence(tables: Tables) -> None:
    tables.put("k", "")
    assert tables.get("k") == ""
    assert not tables.put_if_absent("k", "x")
    assert not tables.compare_and_set("k", None, "x")
    assert tables.compare_and_set("k", "", "x")
    assert tables.get("k") == "x"


def test_large_value_comes_back_whole(tables: Tables) -> None:
    value = "tide" * 500_000
    tables.put("k", value)
    assert tables.get("k") == value


def test_put_if_absent_sets_once(tables: Tables) -> None:
    assert tables.put_if_absent("k", "first")
    assert not tables.put_if_absent("k", "second")
    assert tables.get("k") == "first"


@pytest.mark.parametrize("present", [None, "old"])
@pytest.mark.parametrize("expected", [None, "old", "other"])
@pytest.mark.parametrize("value", [None, "new"])
def test_compare_and_set_acts_only_on_the_expected_value(
    tables: Tables, present: str | None, expected: str | None, value: str | None
) -> None:
    if present is not None:
        tables.put("k", present)
    assert tables.compare_and_set("k", expected, value) == (present == expected)
    assert tables.get("k") == (value if present == expected else present)
    assert [pair[0] for pair in tables.scan("")] == (["k"] if tables.get("k") is not None else [])


def test_delete_tells_whether_there_was_an_entry(tables: Tables) -> None:
    tables.put("k", "v")
    assert tables.delete("k")
    assert not tables.delete("k")


def test_entry_lives_until_it_expires(tables: Tables) -> None:
    tables.put("long", "v", expires_in=3600)
    tables.put("short", "v", expires_in=SHORT)
    wait_past(SHORT)
    assert tables.get("long") == "v"
    assert tables.get("short") is None
    assert tables.scan("") == [("long", "v")]
    assert not tables.delete("short")


def test_expired_entry_counts_as_absent(tables: Tables) -> None:
    for key in ("a", "b", "c"):
        assert tables.put_if_absent(key, "old", expires_in=SHORT)
    wait_past(SHORT)
    assert tables.put_if_absent("a", "new")
    assert not tables.compare_and_set("b", "old", "new")
    assert tables.compare_and_set("b", None, "new")
    assert tables.compare_and_set("c", None, None)
    assert tables.scan("") == [("a", "new"), ("b", "new")]


def test_later_write_replaces_the_expiry(tables: Tables) -> None:
    tables.put("put", "v", expires_in=SHORT)
    tables.put("put", "v")
    tables.put("renewed", "v", expires_in=10 * SHORT)
    assert tables.compare_and_set("renewed", "v", "v", expires_in=3600)
    tables.put("shortened", "v")
    assert tables.compare_and_set("shortened", "v", "v", expires_in=SHORT)
    wait_past(10 * SHORT)
    assert [key for key, _ in tables.scan("")] == ["put", "renewed"]


def test_key_made_anew_after_deletion_does_not_inherit_the_expiry(tables: Tables) -> None:
    tables.put("k", "v", expires_in=SHORT)
    tables.delete("k")
    tables.put("k", "w")
    wait_past(SHORT)
    tables.put("other", "x")
    assert tables.get("k") == "w"
    assert tables.scan("k") == [("k", "w")]


def test_scan_goes_by_the_order_of_bytes(tables: Tables) -> None:
    shuffled = AWKWARD_KEYS.copy()
    random.Random(1).shuffle(shuffled)
    for key in shuffled:
        tables.put(key, key)
    assert tables.scan("") == [(key, key) for key in by_bytes(AWKWARD_KEYS)]


@pytest.mark.parametrize("limit", [1, 2, 7, 100])
def test_scan_in_pages_gives_every_entry_once(tables: Tables, limit: int) -> None:
    keys = [f"p:{text}" for text in AWKWARD_KEYS]
    for key in [*keys, "o", "q", "p", "p;"]:
        tables.put(key, "v")
    found: list[str] = []
    page = tables.scan("p:", limit=limit)
    while page:
        assert len(page) <= limit
        found += [key for key, _ in page]
        page = tables.scan("p:", after=found[-1], limit=limit)
    assert found == by_bytes(keys)


def test_scan_of_more_than_a_thousand_entries_honours_the_limit(tables: Tables) -> None:
    for number in range(1203):
        tables.put(f"n:{number:05d}", str(number))
    assert [value for _, value in tables.scan("n:", limit=2000)] == [str(number) for number in range(1203)]
    assert len(tables.scan("n:")) == 1000
    assert len(tables.scan("n:", limit=1100)) == 1100


def test_marker_need_not_exist_nor_lie_within_the_prefix(tables: Tables) -> None:
    for key in ("a", "p1", "p3", "z"):
        tables.put(key, key)
    assert tables.scan("p", after="p2") == [("p3", "p3")]
    assert tables.scan("p", after="p1") == [("p3", "p3")]
    assert tables.scan("p", after="a") == [("p1", "p1"), ("p3", "p3")]
    assert tables.scan("p", after="p") == [("p1", "p1"), ("p3", "p3")]
    assert tables.scan("p", after="z") == []
    assert tables.scan("p", after="p3") == []
    assert tables.scan("", after="p3") == [("z", "z")]


def test_prefix_may_end_in_any_character(tables: Tables) -> None:
    for prefix in ("x\x7f", "x߿", "x\uffff", "x😀", "x\U0010ffff"):
        tables.put(prefix + "y", prefix)
        assert tables.scan(prefix) == [(prefix + "y", prefix)]


def test_scan_looks_past_expired_entries_to_fill_the_limit(tables: Tables) -> None:
    for number in range(50):
        tables.put(f"k{number:02d}", "v", expires_in=None if number % 10 == 9 else SHORT)
    wait_past(SHORT)
    assert [key for key, _ in tables.scan("k", limit=5)] == ["k09", "k19", "k29", "k39", "k49"]


@pytest.mark.parametrize("key", ["", "k" * 8193, "\ud800"])
def test_unusable_key_is_refused(tables: Tables, key: str) -> None:
    with pytest.raises(InvalidInput):
        tables.put(key, "v")
    with pytest.raises(InvalidInput):
        tables.get(key)
    assert tables.scan("") == []


@pytest.mark.parametrize("expires_in", [0, -1, float("nan"), float("inf")])
def test_unusable_expiry_is_refused_and_nothing_is_set(tables: Tables, expires_in: float) -> None:
    with pytest.raises(InvalidInput):
        tables.put("k", "v", expires_in=expires_in)
    with pytest.raises(InvalidInput):
        tables.compare_and_set("k", None, "v", expires_in=expires_in)
    assert tables.get("k") is None


def test_value_that_is_not_text_and_limit_below_one_are_refused(tables: Tables) -> None:
    with pytest.raises(InvalidInput):
        tables.put("k", "\udfff")
    with pytest.raises(InvalidInput):
        tables.scan("", limit=0)


def test_what_one_process_wrote_another_opens(tables: Tables, tables_address: TablesAddress) -> None:
    tables.put("k", "v")
    other = tables_address.open()
    assert other.get("k") == "v"
    other.put("k", "w")
    other.close()
    assert tables.get("k") == "w"


def test_racing_processes_have_one_winner_per_key(tables: Tables, tables_address: TablesAddress) -> None:
    keys = [f"race:{number}" for number in range(40)]
    names = [f"process-{number}" for number in range(5)]
    with children(*[(claim_keys, tables_address, name, keys) for name in names]) as racers:
        for racer in racers:
            racer.hear()
        for racer in racers:
            racer.say("go")
        won = {name: racer.hear() for name, racer in zip(names, racers, strict=True)}
    assert sorted(key for keys_of_one in won.values() for key in keys_of_one) == sorted(keys)
    assert {key: tables.get(key) for key in keys} == {key: name for name, mine in won.items() for key in mine}


def test_counting_processes_lose_no_update(tables: Tables, tables_address: TablesAddress) -> None:
    with children(*[(count_up, tables_address, "counter", 60)] * 4) as counters:
        for counter in counters:
            counter.hear()
        for counter in counters:
            counter.say("go")
        for counter in counters:
            counter.hear()
    assert tables.get("counter") == "240"


def test_threads_share_one_object(tables: Tables) -> None:
    winners: list[int] = []

    def work(number: int) -> None:
        for key in range(20):
            if tables.put_if_absent(f"k{key}", str(number)):
                winners.append(key)
            tables.get(f"k{key}")
            tables.scan("k", limit=5)

    threads = [threading.Thread(target=work, args=[number]) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(winners) == list(range(20))


def test_random_history_agrees_with_a_dictionary(tables: Tables) -> None:
    chance = random.Random(7)
    model: dict[str, str] = {}
    keys = AWKWARD_KEYS[:10]
    for step in range(400):
        key, value, seen = chance.choice(keys), str(step), chance.choice([None, str(chance.randrange(step + 1))])
        operation = chance.randrange(5)
        if operation == 0:
            tables.put(key, value)
            model[key] = value
        elif operation == 1:
            assert tables.put_if_absent(key, value) == (key not in model)
            model.setdefault(key, value)
        elif operation == 2:
            expected = model.get(key) if chance.random() < 0.5 else seen
            new = value if chance.random() < 0.6 else None
            assert tables.compare_and_set(key, expected, new) == (model.get(key) == expected)
            if model.get(key) == expected:
                model.pop(key, None)
                model.update({key: new} if new is not None else {})
        elif operation == 3:
            assert tables.delete(key) == (model.pop(key, None) is not None)
        else:
            after = chance.choice([None, *keys])
            expected_keys = [k for k in by_bytes(list(model)) if after is None or k.encode() > after.encode()]
            assert tables.scan("", after=after, limit=4) == [(k, model[k]) for k in expected_keys[:4]]
    assert dict(tables.scan("")) == model


def test_entries_are_set_and_removed_together(tables: Tables) -> None:
    tables.put("gone", "old")
    tables.put("expires", "old", expires_in=3600)
    tables.change({"gone": None, "expires": "new", "made": "é\n", "never there": None})
    assert tables.scan("") == [("expires", "new"), ("made", "é\n")]
    assert tables.get("gone") is None
    tables.change({})
    assert not tables.put_if_absent("expires", "other")


def test_when_one_of_several_entries_is_refused_none_is_changed(tables: Tables) -> None:
    tables.put("kept", "old")
    with pytest.raises(InvalidInput):
        tables.change({"kept": "new", "": "a key that is none"})
    assert tables.scan("") == [("kept", "old")]


def test_entries_are_changed_only_if_all_that_is_expected_is_so(tables: Tables) -> None:
    tables.put("text", "old")
    tables.put("expired", "old", expires_in=0.05)
    time.sleep(0.1)
    changes: dict[str, str | None] = {"text": "new", "made": "é"}
    for expected in ({"text": "other"}, {"text": None}, {"missing": ""}, {"text": "old", "expired": "old"}):
        assert not tables.change(changes, expected=expected)
    assert tables.scan("") == [("text", "old")]
    assert tables.change(changes, expected={"text": "old", "missing": None, "expired": None})
    assert tables.scan("") == [("made", "é"), ("text", "new")]
    assert tables.change({"text": None}, expected={"text": "new"}) and tables.get("text") is None
    assert tables.change({}, expected={"made": "é"}) and not tables.change({}, expected={"made": "e"})
