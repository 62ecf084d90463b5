"""Objects that are due, each rewritten in its own way while its deletion runs, and what must be there afterwards."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from tidegate.adapters.s3_store import S3Store
from tidegate.core.lifecycle.assess import Effect
from tidegate.core.lifecycle.rules import ActionKind
from tidegate.core.lifecycle.tasks import ObjectTask, Outcome
from tidegate.lifecycle.acting.assignments import Assignment
from tidegate.lifecycle.acting.bucket_actions import Actor

SECOND_NS = 1_000_000_000
# A rewrite of a due object is so much later than the object itself, or more.
DAY_NS = 2 * SECOND_NS
BYTES = b"the same bytes"
SOURCE = "source-of-copies"
_WRITERS = 5
_LONGEST_PAUSE = 0.02


@dataclass
class Place:
    """A bucket, what is done to its due objects, and which of their versions it is done to."""

    name: str
    effect: Effect
    kind: ActionKind
    version_id: str = ""
    states: tuple[str, ...] = ()


PLACES = (
    Place("races-plain", Effect.DELETE, ActionKind.EXPIRATION_DAYS),
    Place("races-versioned", Effect.EXPIRE, ActionKind.EXPIRATION_DAYS, states=("Enabled",)),
    Place("races-suspended", Effect.EXPIRE, ActionKind.EXPIRATION_DAYS, "null", states=("Enabled", "Suspended")),
)
KINDS_OF_PLACES = len(PLACES) + 1


@dataclass
class Race:
    place: Place
    key: str
    way: str
    from_log: bool
    upload: dict[str, Any] = field(default_factory=dict)
    created_ns: int = 0
    etag: str = ""
    last_modified: str = ""
    version_id: str = ""

    def task(self) -> ObjectTask:
        due_ns = self.created_ns + DAY_NS
        return ObjectTask(
            effect=self.place.effect,
            owner="owner",
            bucket=self.place.name,
            key=self.key,
            version_id=self.place.version_id,
            bucket_uid="uid",
            pass_id="pass",
            kind=self.place.kind,
            rule_id="rule",
            action_id="action",
            due_ns=due_ns,
            became_due_ns=due_ns,
            created_ns=self.created_ns,
            last_modified="" if self.from_log else self.last_modified,
            etag=self.etag,
            size=len(BYTES),
        )


class Track:
    """All races of a test, against one service."""

    def __init__(self, client: Any, store: S3Store, seed: int) -> None:
        self._s3 = client
        self._store = store
        self._chance = random.Random(seed)
        self._number = 0
        self.outcomes: Counter[Outcome] = Counter()
        self._lots = 0
        for place in PLACES:
            self._open(place)

    def _open(self, place: Place) -> None:
        self._s3.create_bucket(Bucket=place.name)
        for state in place.states:
            self._set_versioning(place, state)
        self._s3.put_object(Bucket=place.name, Key=SOURCE, Body=BYTES)

    def _set_versioning(self, place: Place, state: str) -> None:
        self._s3.put_bucket_versioning(Bucket=place.name, VersioningConfiguration={"Status": state})

    def prepare(self, count: int) -> list[list[Race]]:
        """So many objects in each place, all of them due two seconds later."""
        return [*(self._made(place, count) for place in PLACES), self._made_below(count)]

    def _made(self, place: Place, count: int) -> list[Race]:
        races = [self._race(place) for _ in range(count)]
        self._run([lambda race=race: self._make(race) for race in races])  # type: ignore[misc]
        return races

    def _made_below(self, count: int) -> list[Race]:
        """Null versions, older than the bucket's versioning, below newer versions. A rewrite replaces them, on top."""
        self._lots += 1
        place = Place(f"races-below-{self._lots}", Effect.DELETE, ActionKind.NONCURRENT_DAYS, "null")
        self._open(place)
        races = self._made(place, count)
        self._set_versioning(place, "Enabled")
        self._run([lambda race=race: self._cover(race) for race in races])  # type: ignore[misc]
        self._set_versioning(place, "Suspended")
        return races

    def _race(self, place: Place) -> Race:
        self._number += 1
        way = self._chance.choice(list(WAYS))
        return Race(place, f"due/{self._number:06d}", way, from_log=self._chance.random() < 0.5)

    def _make(self, race: Race) -> None:
        where = {"Bucket": race.place.name, "Key": race.key}
        if race.way == "upload":
            self._s3.complete_multipart_upload(**where, **self._upload(where))
            race.upload = self._upload(where)  # begun before the object is due
        else:
            self._s3.put_object(**where, Body=BYTES)
        race.created_ns = time.time_ns()
        found = self._s3.head_object(**where)
        race.etag, race.last_modified = found["ETag"].strip('"'), found["LastModified"].isoformat()

    def _upload(self, where: dict[str, str]) -> dict[str, Any]:
        """An upload with its only part, ready to be completed: always to the same ETag."""
        upload_id = self._s3.create_multipart_upload(**where)["UploadId"]
        part = self._s3.upload_part(**where, UploadId=upload_id, PartNumber=1, Body=BYTES)
        return {"UploadId": upload_id, "MultipartUpload": {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}}

    def _cover(self, race: Race) -> None:
        self._s3.put_object(Bucket=race.place.name, Key=race.key, Body=b"above")

    def run(self, batch: list[Race]) -> None:
        """Deletes and rewrites at once; returns when both are over."""
        while any(time.time_ns() < race.created_ns + DAY_NS for race in batch):
            time.sleep(0.05)
        actor = Actor(self._store, batch[0].place.name, now_ns=time.time_ns(), pause=lambda seconds: True)

        begin = self._chance.uniform(0, _LONGEST_PAUSE)  # so that now the delete comes first, now a rewrite

        def delete() -> None:
            time.sleep(begin)
            results = actor.act([Assignment(race.task()) for race in batch])
            self.outcomes.update(result.outcome for result in results)

        pauses = [self._chance.uniform(0, _LONGEST_PAUSE) for _ in batch]

        def rewrite(race: Race, pause: float) -> None:
            time.sleep(pause)
            WAYS[race.way](self._s3, race)

        rewrites = [
            lambda race=race, pause=pause: rewrite(race, pause)  # type: ignore[misc]
            for race, pause in zip(batch, pauses, strict=True)
        ]
        self._chance.shuffle(rewrites)
        self._run([delete, *rewrites])

    def _run(self, work: list[Callable[[], None]]) -> None:
        with ThreadPoolExecutor(_WRITERS + 1) as threads:
            for running in [threads.submit(one) for one in work]:
                running.result()

    def lost(self, batch: list[Race]) -> list[Race]:
        """Those whose rewritten object is not the current one."""
        with ThreadPoolExecutor(_WRITERS) as threads:
            found = list(threads.map(self._is_there, batch))
        return [race for race, is_there in zip(batch, found, strict=True) if not is_there]

    def _is_there(self, race: Race) -> bool:
        try:
            found = self._s3.head_object(Bucket=race.place.name, Key=race.key)
        except self._s3.exceptions.ClientError as error:
            if error.response["ResponseMetadata"]["HTTPStatusCode"] != 404:
                raise
            return False
        same_version = not race.version_id or found.get("VersionId") == race.version_id
        return same_version and bool(found["ContentLength"] == (5 if race.way == "other" else len(BYTES)))


# --- ways to rewrite ------------------------------------------------------------------------------


def _put(client: Any, race: Race, body: bytes = BYTES) -> None:
    answer = client.put_object(Bucket=race.place.name, Key=race.key, Body=body)
    race.version_id = answer.get("VersionId", "")


def _put_other(client: Any, race: Race) -> None:
    _put(client, race, b"other")


def _copy(client: Any, race: Race) -> None:
    source = {"Bucket": race.place.name, "Key": SOURCE}
    answer = client.copy_object(Bucket=race.place.name, Key=race.key, CopySource=source)
    race.version_id = answer.get("VersionId", "")


def _complete(client: Any, race: Race) -> None:
    answer = client.complete_multipart_upload(Bucket=race.place.name, Key=race.key, **race.upload)
    race.version_id = answer.get("VersionId", "")


def _delete_and_put(client: Any, race: Race) -> None:
    client.delete_object(Bucket=race.place.name, Key=race.key)
    _put(client, race)


WAYS: dict[str, Callable[[Any, Race], None]] = {
    "same": _put,
    "other": _put_other,
    "copy": _copy,
    "upload": _complete,
    "delete and put": _delete_and_put,
}
