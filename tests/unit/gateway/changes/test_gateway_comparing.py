"""What the healer tells of the tags of a key after a change that was left open."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tidegate.core.events import Event, EventKind, Pairs
from tidegate.core.known_events import KnownEvents
from tidegate.core.listings import ListedVersion
from tidegate.gateway.changes import comparing
from tidegate.gateway.changes.intents import Intent

BEGAN = 100.0
TAGS = (("by", "somebody"),)


def listed(version_id: str, modified: float = 10.0, *, is_marker: bool = False) -> ListedVersion:
    return ListedVersion("k", version_id, False, is_marker, modified, "e", 1)


def event(seconds: int, kind: EventKind, **fields: Any) -> Event:
    return Event(seconds * 1_000_000_000, kind, "pool", "bucket", "uid", key="k", **fields)


def told(
    monkeypatch: pytest.MonkeyPatch, newest_first: list[ListedVersion], tags: dict[str, Pairs], events: list[Event]
) -> list[tuple[EventKind, str, Pairs]]:
    """By the look at a change of the version v9."""

    async def versions(*_: object) -> list[ListedVersion]:
        return newest_first

    async def stored(*asked: object) -> Pairs:
        return tags[str(asked[-1])]

    async def no_uploads(*_: object) -> list[Any]:
        return []

    monkeypatch.setattr(comparing, "key_versions", versions)
    monkeypatch.setattr(comparing, "stored_tags", stored)
    monkeypatch.setattr(comparing, "open_uploads", no_uploads)
    comparison = comparing.Comparison(
        cast(Any, SimpleNamespace(name="gateway")),
        cast(Any, SimpleNamespace(event_time=lambda key: 200_000_000_000)),
        Intent(BEGAN, "pool", "bucket", (("k", "v9"),)),
        cast(Any, SimpleNamespace(name="bucket", uid="uid", pool="pool")),
        cast(Any, SimpleNamespace(pool=SimpleNamespace(owner="owner"))),
        "k",
        "v9",
        KnownEvents(events),
    )
    return [(one.operation, one.version_id, one.tags) for one in asyncio.run(comparison.events())]


MADE = [event(number, EventKind.PUT, version_id=f"v{number}") for number in (7, 8, 9)]


def test_of_a_named_version_that_is_gone_the_one_below_is_looked_at_for_tags(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = [listed("v8"), listed("v7")]
    deletion = (EventKind.DELETE, "v9", ())
    tagged = event(101, EventKind.TAGGING, tags=TAGS)  # the log has it as one of v9, which was not yet deleted there
    found = told(monkeypatch, left, {"v8": TAGS}, [*MADE, tagged])
    assert found == [(EventKind.TAGGING, "v8", TAGS), deletion]
    assert told(monkeypatch, left, {"v8": ()}, MADE) == [deletion]


def test_of_a_named_version_that_is_there_no_other_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    there = [listed("v9"), listed("v8")]
    assert told(monkeypatch, there, {"v9": TAGS}, MADE) == [(EventKind.TAGGING, "v9", TAGS)]


def test_markers_have_no_tags(monkeypatch: pytest.MonkeyPatch) -> None:
    marker = event(9, EventKind.DELETE_MARKER, version_id="v9")
    assert told(monkeypatch, [listed("v9", is_marker=True), listed("v8")], {}, [*MADE[:2], marker]) == []
    below = event(8, EventKind.DELETE_MARKER, version_id="v8")
    found = told(monkeypatch, [listed("v8", is_marker=True), listed("v7")], {}, [MADE[0], below, MADE[2]])
    assert found == [(EventKind.DELETE, "v9", ())]
