"""`python -m bench.lifecycle.walking`: walking a bucket on Spark beside bare paged listings of the same bucket.

One store, one run. The bare clients ask the store itself, page after page, and look into no page but for where the
next begins; the walker goes through the gateway, as in a pass, and makes rows of what it reads. What the store can do
at most is what two clients get out of it that list half of the keys each.
"""

from __future__ import annotations

import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.pool import Pool
from pathlib import Path
from urllib.parse import quote, unquote

import click
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.gateway.requests import Target
from bench.gateway.servers import Tidegate, running_tidegate, with_bucket
from bench.goals import word
from bench.store_content import Session, fill
from tidegate.pipeline.session.spark_session import open_session
from tidegate.pipeline.walk.listing_source import WalkedBucket, listed_versions
from tidegate.settings import Settings

GOAL_RATIO = 0.9
_BUCKET = "walked"
_NEXT = re.compile(rb"<NextKeyMarker>([^<]*)</NextKeyMarker>")


@dataclass(slots=True)
class Figures:
    """Entries per second, one figure for each round."""

    entries: int
    one_client: list[float] = field(default_factory=list)
    two_clients: list[float] = field(default_factory=list)
    walker: list[float] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        """To what the store can do at most."""
        return statistics.median(self.walker) / statistics.median(self.two_clients)


def run(entries: int = 200_000, rounds: int = 3) -> None:
    """Prints a table."""
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home:
        settings = ("lifecycle.enabled=false", "gateway.port=0", "api.port=0")
        with running_tidegate(Path(home, "tidegate"), *settings) as service:
            store = _filled(service, entries)
            session = open_session(Settings(), Path(home))
            try:
                with multiprocessing.get_context("spawn").Pool(2) as clients:
                    found = _measured(session, clients, service, store, entries, rounds)
            finally:
                session.stop()
    print(_table(found))


@click.command()
@click.option("--entries", default=200_000, help="Objects in the bucket.")
@click.option("--rounds", default=3, help="Rounds of each; figures are medians.")
def main(entries: int, rounds: int) -> None:
    """Entries per second of the walker and of bare listings."""
    run(entries, rounds)


def _filled(service: Tidegate, entries: int) -> Target:
    """The store itself, with so many objects of one byte in the bucket."""
    store = with_bucket(service, _BUCKET).target("store")
    fill(store, _BUCKET, [_key(number) for number in range(entries)])
    return store


def _key(number: int) -> str:
    return f"entry-{number:07}"


def _measured(
    session: SparkSession, clients: Pool, service: Tidegate, store: Target, entries: int, rounds: int
) -> Figures:
    """All take turns. The first round is left out: a pass comes to a session that is warm."""
    found = Figures(entries)
    middle = _key(entries // 2 - 1)
    walked = WalkedBucket(
        "uid", _BUCKET, "owner", f"http://{service.host}:{service.port}", service.access_key, service.secret_key
    )
    for number in range(rounds + 1):
        one = _speed(entries, lambda: sum(clients.starmap(_list, [(store, "", "")])))
        two = _speed(entries, lambda: sum(clients.starmap(_list, [(store, "", middle), (store, middle, "")])))
        walk = _speed(entries, lambda: _walk(session, walked))
        if number:
            found.one_client.append(one)
            found.two_clients.append(two)
            found.walker.append(walk)
    return found


def _speed(entries: int, work: Callable[[], int]) -> float:
    began = time.monotonic()
    count = work()
    seconds = time.monotonic() - began
    if count != entries:
        raise SystemExit(f"{count} entries were listed of {entries}")
    return entries / seconds


def _walk(session: SparkSession, walked: WalkedBucket) -> int:
    row = listed_versions(session, [walked]).agg(F.count("key"), F.sum("size"), F.first("problem", True)).collect()[0]
    if row[2]:
        raise SystemExit(row[2])
    return int(row[1])


def _list(store: Target, after: str, until: str) -> int:
    """How many keys after the one and up to the other, as one client."""
    session = Session(store)
    count, marker = 0, after
    while True:
        path = f"/{_BUCKET}?key-marker={quote(marker, safe='')}&max-keys=1000&versions="
        page = session.get(path)
        following = _NEXT.search(page)
        if b"<IsTruncated>true</IsTruncated>" not in page or following is None:
            count += page.count(b"<Version>") if not until else _up_to(page, until)
            return count
        marker = unquote(following[1].decode())
        if until and marker >= until:
            return count + _up_to(page, until)
        count += page.count(b"<Version>")


def _up_to(page: bytes, until: str) -> int:
    return sum(key.decode() <= until for key in re.findall(rb"<Key>([^<]*)</Key>", page))


def _table(found: Figures) -> str:
    walker = statistics.median(found.walker)
    bare = {"one client": statistics.median(found.one_client), "two clients": statistics.median(found.two_clients)}
    lines = [f"{'':<42} {'entries/s':>10} {'walker':>8}", "-" * 62]
    lines += [f"{f'bare listing, {name}':<42} {speed:10,.0f} {walker / speed:6.2f} x" for name, speed in bare.items()]
    lines.append(f"{'walker on Spark, through the gateway':<42} {walker:10,.0f}")
    reached = word(found.ratio >= GOAL_RATIO)
    return "\n".join([*lines, "", f"{found.entries:,} entries; goal: {GOAL_RATIO} of two clients: {reached}"])


if __name__ == "__main__":
    main()
