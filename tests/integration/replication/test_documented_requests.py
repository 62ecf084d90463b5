"""Every request in docs/replication.md is sent to a running service with two real stores as sites, in the page's order,
and its answer compared to the letter: names, their order, and values.

What stands in angle brackets is the same wherever it stands; of what the test does not know, the form is checked.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest
from failed_versions import fail, make_bucket
from metadata_log import settings_of
from move_ledger import wait_until
from replication_ledger import ReplicationLedger
from running_service import ROOT
from second_store import SecondStore

from tidegate.assembly import open_tables
from tidegate.core.replication.failed_keys import FailedKey

PAGE = ROOT / "docs" / "replication.md"
_FENCE = re.compile(r"^```http\n(.*?)^```\n+^```json ?(\d*)\n(.*?)^```$|^(#+ [^\n]*)$", re.MULTILINE | re.DOTALL)
_PLACE = re.compile(r"<([a-z-]+)>")
_FORMS = {
    "resume-at": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "last-modified": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z",
    "next-marker": r"[A-Za-z0-9_-]+",
    "body": r"b'.*'",
}
BODY = b"x" * 900
FAILED = 1001


@dataclass(frozen=True)
class Example:
    heading: str
    method: str
    target: str
    body: str
    status: int
    answer: str


def examples() -> Iterator[Example]:
    heading = ""
    for found in _FENCE.finditer(PAGE.read_text()):
        request, status, answer, title = found.groups()
        if title:
            heading = title.lstrip("# ")
            continue
        line, _, body = request.partition("\n")
        method, target = line.split(" ", 1)
        yield Example(heading, method, target, body.strip(), int(status or 200), answer)


class Page:
    """The world in which the page's examples take place. `known` are the values in angle brackets."""

    def __init__(self, ledger: ReplicationLedger, paris: SecondStore, copies: str) -> None:
        self.ledger, self.paris = ledger, paris
        self.known: dict[str, str] = {}
        self.before: dict[str, Callable[[], None]] = {
            "Pausing sites": partial(ledger.make_bucket, "photos", copies=copies),
            "Failures": self.put_while_paris_is_down,
            "Retry": self.bring_paris_back,
            "Metrics": partial(ledger.wait_until_arrived, "photos"),
            "Long lists": self.have_many_failed,
        }

    def put_while_paris_is_down(self) -> None:
        self.paris.stop()
        put = self.ledger.s3.put_object(Bucket="photos", Key="2020/holiday.jpg", Body=BODY)
        self.known["version-id"] = put["VersionId"]
        self.ledger.wait_for_counts("photos", {"oslo": (0, 1, 0), "paris": (0, 0, 1)})
        wait_until(lambda: bool(self.listed()), lambda: "the failure is not listed")
        assert self.status() == "FAILED"

    def bring_paris_back(self) -> None:
        self.paris.start()

    def have_many_failed(self) -> None:
        assert self.status() == "COMPLETED"
        with closing(open_tables(settings_of(self.ledger.service), self.ledger.service.data)) as tables:
            make_bucket(tables, "archive", "uid-of-archive")
            for number in range(FAILED):
                fail(tables, FailedKey("archive", f"{number:04}", "v1", "paris"), uid="uid-of-archive")

    def status(self) -> str:
        head = self.ledger.s3.head_object(Bucket="photos", Key="2020/holiday.jpg")
        return str(head["ReplicationStatus"])

    def listed(self) -> list[Any]:
        with self.ledger.service.api() as api:
            found: list[Any] = api.get("/_/crr/failed").raise_for_status().json()["Versions"]
        return found

    def filled(self, text: str) -> str:
        return _PLACE.sub(lambda found: self.known[found[1]], text)

    def compare(self, given: Any, wanted: Any, where: str) -> None:
        """Both with objects as lists of pairs, so that the order of names counts."""
        if isinstance(wanted, list) and wanted and wanted[-1] == "…":
            assert isinstance(given, list), where
            assert len(given) == 1000, where
            given, wanted = given[: len(wanted) - 1], wanted[:-1]
        if isinstance(wanted, list | tuple):
            assert isinstance(given, list | tuple), where
            assert len(given) == len(wanted), (where, given)
            for number, (each, of_page) in enumerate(zip(given, wanted, strict=True)):
                self.compare(each, of_page, f"{where}[{number}]")
        elif isinstance(wanted, str) and _PLACE.search(wanted):
            self.learn(given, wanted, where)
        else:
            assert (type(given), given) == (type(wanted), wanted), where

    def learn(self, given: Any, wanted: str, where: str) -> None:
        assert isinstance(given, str), where
        (name,) = _PLACE.findall(wanted)
        if name in self.known:
            assert given == self.filled(wanted), where
            return
        before, after = _PLACE.split(wanted)[::2]
        found = re.fullmatch(f"{re.escape(before)}({_FORMS[name]}){re.escape(after)}", given, re.DOTALL)
        assert found, (where, given)
        self.known[name] = found[1]


@pytest.fixture
def page(
    make_service: Callable[..., Any],
    make_store: Callable[..., SecondStore],
    second_store: SecondStore,
    fresh_name: Callable[[str], str],
) -> Page:
    service = make_service(
        gateway__processes=1, lifecycle__enabled=False, replication__retry_seconds=[0.2, 0.2], deletion__enabled=False
    )
    paris = make_store()
    ledger = ReplicationLedger(service, service.create_pool("photographers"), {"oslo": second_store, "paris": paris})
    return Page(ledger, paris, fresh_name("photos-copies"))


def test_every_request_of_the_page_is_answered_as_it_says(page: Page) -> None:
    seen = []
    with page.ledger.service.api() as api:
        for example in examples():
            if example.heading not in seen:
                seen.append(example.heading)
                page.before[example.heading]()
            answer = api.request(example.method, page.filled(example.target), content=page.filled(example.body) or None)
            where = f"{example.method} {example.target}"
            assert answer.status_code == example.status, (where, answer.text)
            pairs = {"object_pairs_hook": lambda found: [("object", name, value) for name, value in found]}
            page.compare(json.loads(answer.text, **pairs), json.loads(example.answer, **pairs), where)
    assert seen == list(page.before)


def test_the_page_has_an_example_of_every_route() -> None:
    wanted = {
        *("GET /_/crr/failed", "POST /_/crr/failed", "GET /_/crr/status", "GET /_/crr/status/SITE"),
        *("POST /_/crr/pause", "POST /_/crr/pause/SITE", "POST /_/crr/resume", "POST /_/crr/resume/SITE"),
        *("GET /_/crr/resume/SITE", "POST /_/crr/resume/SITE/schedule", "DELETE /_/crr/resume/SITE/schedule"),
        *(f"GET /_/metrics/crr/SITE{rest}" for rest in ("", "/backlog", "/completions", "/failures")),
        *(f"GET /_/metrics/crr/SITE{rest}" for rest in ("/throughput", "/pending")),
        *(f"GET /_/metrics/crr/SITE/{what}/photos/2020/holiday.jpg" for what in ("progress", "throughput")),
    }
    shown = {f"{each.method} {each.target.partition('?')[0]}" for each in examples()}
    assert {re.sub(r"/(paris|all)(?=/|$)", "/SITE", each) for each in shown} == wanted
