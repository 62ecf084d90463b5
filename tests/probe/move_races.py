"""Objects that move to a second store, each changed by a client meanwhile, and what must be there afterwards.

Moves are made by the data mover's own code in the test's process, through the service's gateways.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from threading import Event as Flag
from typing import Any

from botocore.exceptions import ClientError
from move_ledger import Ledger
from running_service import PoolKey, RunningService
from second_store import SecondStore

from tidegate import assembly
from tidegate.core.copy_tasks import CopyTask
from tidegate.core.records import Bucket
from tidegate.lifecycle.acting.stores import Stores
from tidegate.movement.copy_progress import CopyProgress
from tidegate.movement.copying import Copier
from tidegate.movement.locations import Locations
from tidegate.movement.mover_topics import MOVEMENT_RESULTS_TOPIC
from tidegate.movement.placer import Placer, Settled
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault

OLD, NEW = b"before", b"afterwards"
TAGS = [{"Key": "changed", "Value": "yes"}]
SOURCE = "source-of-copies"
LOCATION = "cold"
_PAIRS = 4
_LONGEST_PAUSE = 0.06
_PART_BYTES = 5 << 20


@dataclass(frozen=True)
class Place:
    """A kind of bucket, and which version of its keys moves. `states` are those of versioning before the objects are
    made, `later` the one after."""

    name: str
    states: tuple[str, ...] = ()
    later: str = ""
    is_covered: bool = False

    @property
    def is_versioned(self) -> bool:
        return bool(self.states)


PLACES = (
    Place("plain"),
    Place("versioned", ("Enabled",)),
    Place("suspended", ("Enabled", "Suspended")),
    Place("named", ("Enabled",), later="Suspended"),
    Place("noncurrent", ("Enabled",), is_covered=True),
)


@dataclass
class Race:
    """`is_whole` says that the copy races as well, not only the request to place it."""

    place: Place
    bucket: str
    key: str
    way: str
    is_whole: bool
    version_id: str = ""
    upload: dict[str, Any] = field(default_factory=dict)
    changed_id: str = ""
    outcome: Settled | None = None

    @property
    def where(self) -> dict[str, str]:
        return {"Bucket": self.bucket, "Key": self.key}

    @property
    def named(self) -> dict[str, str]:
        return {**self.where, "VersionId": self.version_id or "null"}


class MoveTrack:
    """All races of a test, against one service with a location."""

    def __init__(self, service: RunningService, key: PoolKey, store: SecondStore, seed: int) -> None:
        self.s3 = service.s3(key, max_pool_connections=4 * _PAIRS)
        self._pool, self._chance, self._number, self._lots = key.pool, random.Random(seed), 0, 0
        self.outcomes: Counter[tuple[str, str, str]] = Counter()
        self.ledger = Ledger(service, key, store, LOCATION)
        settings = self.ledger.settings
        self._tables, self._topics = self.ledger.tables, self.ledger.topics
        vault = Vault.open(service.data)
        self._locations = Locations(self._tables, vault, {}, assembly.open_location)
        registry = Registry(self._tables, vault, service.data, settings)
        self._stores = Stores(registry, partial(assembly.open_store, service.s3_url))
        progress = CopyProgress(self._tables, self._topics, deletion_topic=settings.deletion.topic)
        self._copier = Copier(
            self._tables, progress, self._stores, self._locations, part_bytes=_PART_BYTES, at_a_time=8, stop=Flag()
        )
        self._placer = Placer(self._tables, progress, self._stores)

    def close(self) -> None:
        self._locations.close()
        self._stores.close()
        self.ledger.close()

    # --- before ----------------------------------------------------------------------------------

    def prepare(self, count: int) -> list[Race]:
        """So many objects in a new bucket of each kind: the first of them to move is the first of its bucket."""
        self._lots += 1
        races: list[Race] = []
        for place in PLACES:
            races += self._made(place, f"{place.name}-{self._lots}", count)
        self._chance.shuffle(races)
        return races

    def _made(self, place: Place, bucket: str, count: int) -> list[Race]:
        self.s3.create_bucket(Bucket=bucket)
        for state in place.states:
            self._set_versioning(bucket, state)
        self.s3.put_object(Bucket=bucket, Key=SOURCE, Body=NEW, Metadata={"made": "later"})
        races = [self._race(place, bucket) for _ in range(count)]
        self._run([partial(self._make, race) for race in races])
        if place.later:
            self._set_versioning(bucket, place.later)
        return races

    def _set_versioning(self, bucket: str, state: str) -> None:
        self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": state})

    def _race(self, place: Place, bucket: str) -> Race:
        self._number += 1
        ways = list(WAYS)
        way = ways[self._number % len(ways)]
        return Race(place, bucket, f"moves/{self._number:06d}", way, is_whole=self._chance.random() < 0.5)

    def _make(self, race: Race) -> None:
        race.version_id = self.s3.put_object(**race.where, Body=OLD).get("VersionId", "")
        if race.place.is_covered:
            self.s3.put_object(**race.where, Body=b"above")
        if race.way == "upload":
            upload_id = self.s3.create_multipart_upload(**race.where, Metadata={"made": "later"})["UploadId"]
            part = self.s3.upload_part(**race.where, UploadId=upload_id, PartNumber=1, Body=NEW)
            parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
            race.upload = {"UploadId": upload_id, "MultipartUpload": parts}

    # --- the race --------------------------------------------------------------------------------

    def run(self, races: list[Race]) -> None:
        """Moves and changes at once, several keys at a time; returns when all of it is over."""
        self._run([partial(self._compete, race, *self._pauses()) for race in races])
        for race in races:
            self.outcomes[race.place.name, race.way, str(race.outcome)] += 1

    def _pauses(self) -> tuple[float, float]:
        """One of the two waits, so that now the move comes first, now the change."""
        pause = self._chance.uniform(0, _LONGEST_PAUSE)
        return (pause, 0.0) if self._chance.random() < 0.5 else (0.0, pause)

    def _compete(self, race: Race, before_move: float, before_change: float) -> None:
        task = self._task(race)
        location = self._locations.get(LOCATION)
        status = None if race.is_whole else self._copier.copy(task, location)

        def move() -> None:
            time.sleep(before_move)
            race.outcome = self._placer.settle(status or self._copier.copy(task, location)).settled

        def change() -> None:
            time.sleep(before_change)
            race.changed_id = WAYS[race.way](self.s3, race)

        with ThreadPoolExecutor(2) as both:
            for running in [both.submit(move), both.submit(change)]:
                running.result()

    def _task(self, race: Race) -> CopyTask:
        listed = self.s3.list_object_versions(Bucket=race.bucket, Prefix=race.key)["Versions"]
        (found,) = [entry for entry in listed if entry["VersionId"] == (race.version_id or "null")]
        uid = Bucket.from_json(self._tables.get(Bucket.PREFIX + race.bucket) or "").uid
        return CopyTask(
            owner="", bucket=race.bucket, key=race.key, version_id=race.version_id, bucket_uid=uid,
            location=LOCATION, storage_class=LOCATION.upper(), results_topic=MOVEMENT_RESULTS_TOPIC,
            request_id="race", size=found["Size"], etag=found["ETag"].strip('"'),
            last_modified=found["LastModified"].isoformat(),
        )  # fmt: skip

    @staticmethod
    def _run(work: list[Callable[[], None]]) -> None:
        with ThreadPoolExecutor(_PAIRS) as threads:
            for running in [threads.submit(one) for one in work]:
                running.result()


# --- what clients do ------------------------------------------------------------------------------


def _put(client: Any, race: Race, body: bytes = NEW) -> str:
    made = client.put_object(**race.where, Body=body, Metadata={"made": "later"})
    return str(made.get("VersionId", ""))


def _put_same(client: Any, race: Race) -> str:
    return _put(client, race, OLD)


def _copy(client: Any, race: Race) -> str:
    made = client.copy_object(**race.where, CopySource={"Bucket": race.bucket, "Key": SOURCE})
    return str(made.get("VersionId", ""))


def _complete(client: Any, race: Race) -> str:
    return str(client.complete_multipart_upload(**race.where, **race.upload).get("VersionId", ""))


def _delete(client: Any, race: Race) -> str:
    return str(client.delete_object(**race.where).get("VersionId", ""))


def _delete_version(client: Any, race: Race) -> str:
    client.delete_object(**race.named)
    return ""


def _delete_many(client: Any, race: Race) -> str:
    client.delete_objects(Bucket=race.bucket, Delete={"Objects": [{"Key": race.key}]})
    return ""


def _tag(client: Any, race: Race) -> str:
    named = race.named if race.version_id else race.where
    client.put_object_tagging(**named, Tagging={"TagSet": TAGS})
    return ""


WAYS: dict[str, Callable[[Any, Race], str]] = {
    "overwrite": _put,
    "same bytes": _put_same,
    "copy": _copy,
    "upload": _complete,
    "delete": _delete,
    "delete version": _delete_version,
    "delete many": _delete_many,
    "tag": _tag,
}
WRITES = frozenset({"overwrite", "same bytes", "copy", "upload"})
DELETES = frozenset({"delete", "delete many"})


# --- afterwards -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seen:
    """What clients read: the data and metadata of an object, or nothing."""

    body: bytes | None
    made: str = ""


GONE = Seen(None)
_ABOVE = Seen(b"above")
_BEFORE = Seen(OLD)


def expected(race: Race) -> tuple[Seen, Seen]:
    """The current version, and the one that was moved (by its id), when both have ended."""
    is_null = race.version_id in ("", "null")
    covered = _ABOVE if race.place.is_covered else _BEFORE
    if race.way in WRITES:
        written = Seen(OLD if race.way == "same bytes" else NEW, "later")
        return written, written if is_null else _BEFORE
    if race.way in DELETES:
        return GONE, GONE if is_null else _BEFORE
    if race.way == "delete version":
        return (_ABOVE if race.place.is_covered else GONE), GONE
    return covered, _BEFORE


def faults(client: Any, race: Race) -> list[str]:
    """What clients see of the key that is not as it must be."""
    current, moved = expected(race)
    named = race.named if race.place.is_versioned else race.where
    found = {"current": (_read(client, **race.where), current), "moved": (_read(client, **named), moved)}
    if race.changed_id and race.way in WRITES:
        found["written"] = _read(client, **race.where, VersionId=race.changed_id), current
    wrong = [f"{name}: {got}, not {wanted}" for name, (got, wanted) in found.items() if got != wanted]
    listed = client.list_objects_v2(Bucket=race.bucket, Prefix=race.key).get("Contents", [])
    sizes = [] if current.body is None else [len(current.body)]
    if [entry["Size"] for entry in listed] != sizes:
        wrong.append(f"listed: {listed}, not {sizes}")
    if race.way == "tag":
        tags = client.get_object_tagging(**named)["TagSet"]
        wrong += [] if tags == TAGS else [f"tags: {tags}"]
    return wrong


def _read(client: Any, **named: str) -> Seen | str:
    """By GET, with which HEAD must agree; an error that says more than that nothing is there is told."""
    head, found = (_asked(method, named) for method in (client.head_object, client.get_object))
    if isinstance(head, str) or isinstance(found, str) or head is None or found is None:
        return GONE if head is found is None else f"HEAD: {head}, GET: {found}"
    body = found["Body"].read()
    shown = [(each["ETag"], each["ContentLength"], each.get("VersionId")) for each in (head, found)]
    if shown[0] != shown[1] or found["ContentLength"] != len(body):
        return f"HEAD: {shown[0]}, GET: {shown[1]} with {len(body)} bytes"
    return Seen(body, found["Metadata"].get("made", ""))


def _asked(method: Callable[..., Any], named: dict[str, str]) -> dict[str, Any] | str | None:
    try:
        found: dict[str, Any] = method(**named)
        return found
    except ClientError as error:
        is_gone = error.response["ResponseMetadata"]["HTTPStatusCode"] in (404, 405)
        return None if is_gone else str(error)
