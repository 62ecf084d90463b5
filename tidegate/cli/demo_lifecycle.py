"""`tidegate demo`: objects that expire before a newcomer's eyes, and what to ask about them."""

from __future__ import annotations

import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from urllib.parse import quote

import click

from tidegate.assembly import open_topics
from tidegate.cli.demo import POOL, program
from tidegate.cli.invocation import Command, Invocation, pass_invocation
from tidegate.cli.printing import print_object, show
from tidegate.core import sigv4
from tidegate.core.errors import Conflict, Unavailable
from tidegate.core.lifecycle.tasks import AuditRecord, Outcome
from tidegate.datadir import Endpoints
from tidegate.lifecycle.acting.audit_trail import AuditTrail
from tidegate.lifecycle.buckets.time_scale import restore_demo_day, shorten_demo_day
from tidegate.lifecycle.passes.pass_records import PassReports, PassStatus
from tidegate.lifecycle.queries.moments import moment_of
from tidegate.lifecycle.topics import create_topics
from tidegate.ports import Tables, Topics

BUCKET = "lifecycle-demo"
RULES = """<LifecycleConfiguration>
  <Rule>
    <ID>temporary</ID>
    <Filter><Prefix>tmp/</Prefix></Filter>
    <Status>Enabled</Status>
    <Expiration><Days>1</Days></Expiration>
  </Rule>
  <Rule>
    <ID>old-reports</ID>
    <Filter><Prefix>reports/</Prefix></Filter>
    <Status>Enabled</Status>
    <Expiration><Days>2</Days></Expiration>
  </Rule>
</LifecycleConfiguration>
"""
EXPIRING = (*(f"tmp/{number}.txt" for number in range(1, 6)), *(f"reports/{number}.txt" for number in range(1, 4)))
KEPT = "keep/me.txt"

# The pool may have to be woken first.
_TIMEOUT_SECONDS = 150.0
_POLL_SECONDS = 0.5


@click.command(cls=Command)
@click.option("--off", is_flag=True, help="Gives the pool `demo` its ordinary days back.")
@click.option("--watch", is_flag=True, help="Shows what happens until all that expires is gone.")
@click.option("--day-seconds", default=10.0, show_default=True, type=click.FloatRange(1, 3600), help="Length of a day.")
@pass_invocation
def demo(invocation: Invocation, off: bool, watch: bool, day_seconds: float) -> None:
    """Makes objects in the pool `demo` that expire within a minute, by days that last seconds.

    For a service that was started with `tidegate up --demo` (or `make run`). Only the pool `demo` gets short days, and
    only for an hour.
    """
    with invocation.tables() as tables:
        if off:
            was_on = restore_demo_day(tables)
            print_object({"demo": "off" if was_on else "was not on"}, as_json=invocation.json)
            return
        place = _place(invocation)
        topics = open_topics(invocation.settings(), invocation.directory.path)
        try:
            create_topics(topics)
            ends = AuditTrail(topics).ends()
            begun = time.time()
            shorten_demo_day(tables, day_seconds)
            place.fill()
            _tell(invocation, place, day_seconds)
            if watch:
                _Watch(tables, topics, begun, as_json=invocation.json).run(ends)
        finally:
            topics.close()


def _place(invocation: Invocation) -> _Place:
    endpoints = invocation.directory.endpoints() if invocation.directory.runs() else None
    if endpoints is None:
        raise Unavailable("no service runs on this data directory; start one with: tidegate up --demo")
    key = invocation.directory.demo()
    if key is None or not invocation.settings().lifecycle.demo_day:
        raise Conflict("the service was not started for demonstrations; start it with: tidegate up --demo")
    if not invocation.settings().lifecycle.enabled:
        raise Conflict("lifecycle is switched off: nothing expires while lifecycle.enabled is false")
    return _Place(endpoints, key["access_key"], key["secret_key"])


@dataclass(frozen=True, slots=True)
class _Place:
    """The demo's bucket at the S3 endpoint."""

    endpoints: Endpoints
    access_key: str
    secret_key: str

    def fill(self) -> None:
        self._put("", b"", accepted=(200, 409))
        self._put("", RULES.encode(), query="lifecycle=")
        for key in (*EXPIRING, KEPT):
            self._put(f"/{key}", f"This is {key}.\n".encode())

    def _put(self, path: str, body: bytes, *, query: str = "", accepted: tuple[int, ...] = (200,)) -> None:
        target = quote(f"/{BUCKET}{path}")
        signed = sigv4.presign(
            b"PUT",
            target.encode(),
            query.encode(),
            host=self.endpoints.s3.partition("://")[2].encode(),
            access_key=self.access_key,
            secret=self.secret_key,
            region="us-east-1",
            expires=int(_TIMEOUT_SECONDS),
            now=time.time(),
        )
        request = urllib.request.Request(f"{self.endpoints.s3}{target}?{signed.decode()}", data=body, method="PUT")
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_SECONDS):
                return
        except urllib.error.HTTPError as error:
            if error.code not in accepted:
                answer = error.read(500).decode(errors="replace")
                raise Unavailable(f"PUT {target} was answered with {error.code}: {show(answer)}") from None
        except OSError as error:
            raise Unavailable(f"the S3 endpoint {self.endpoints.s3} does not answer: {error}") from None


def _tell(invocation: Invocation, place: _Place, day_seconds: float) -> None:
    if invocation.json:
        shown = {"bucket": BUCKET, "pool": POOL, "day_seconds": day_seconds, "expiring": list(EXPIRING), "kept": [KEPT]}
        print_object(shown, as_json=True)
        return
    command, data = program("tidegate"), f"--data {invocation.directory.path}"
    click.echo(f"""
  *** A day in the pool {POOL} lasts {day_seconds:g} seconds now, for an hour at most. ***

The bucket {BUCKET} has two rules: tmp/ expires after one day, reports/ after two; keep/ stays.
Watch it go, and ask why:

  {command} demo --watch {data}
  {command} lifecycle explain s3://{BUCKET}/{EXPIRING[-1]} {data}
  {command} audit --bucket {BUCKET} {data}
  {command} pass history {data}

The same in a browser: {place.endpoints.api}
Ordinary days again: {command} demo --off {data}
""")


class _Watch:
    """Follows the audit trail until everything that expires is gone."""

    def __init__(self, tables: Tables, topics: Topics, begun: float, *, as_json: bool) -> None:
        self._reports = PassReports(tables)
        self._trail = AuditTrail(topics)
        self._begun_ns = int(begun * 1e9)
        self._as_json = as_json

    def run(self, ends: list[int]) -> None:
        waiting = set(EXPIRING)
        while waiting:
            following = self._trail.ends()
            for record in self._trail.since(ends):
                if record.task.bucket == BUCKET:
                    self._show(record)
                    waiting -= {record.task.key} if record.outcome is Outcome.DONE else set()
            ends = following
            self._stop_if_failed()
            time.sleep(_POLL_SECONDS if waiting else 0)

    def _show(self, record: AuditRecord) -> None:
        if self._as_json:
            click.echo(record.to_json())
            return
        task = record.task
        at = moment_of(record.at_ns).strftime("%H:%M:%S")
        click.echo(f"{at}  {show(task.key)}  {task.effect.value} by rule {show(task.rule_id)}: {record.outcome.value}")

    def _stop_if_failed(self) -> None:
        for report in self._reports.all():
            if report.now_ns >= self._begun_ns and report.status is PassStatus.FAILED:
                raise Unavailable(f"the pass {report.id} failed: {report.problem}")
