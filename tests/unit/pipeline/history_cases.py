"""Generated histories of one key, in the events that the gateway would journal, and the core's fold over them."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace

from hypothesis import strategies as st
from lifecycle_cases import DAY, MIDNIGHT, SECOND, rule_sets
from msgspec.structs import replace as amended
from plans import generated

from tidegate.core.events import Event, EventKind
from tidegate.core.lifecycle.assess import SMALL_OBJECT_BYTES, BucketContext
from tidegate.core.lifecycle.rules import STORAGE_CLASSES
from tidegate.core.lifecycle.subjects import Upload, Version, Versioning

HISTORIES = int(os.environ.get("HISTORIES", "1000"))
KEY = "k"
# All histories are looked at from the same few moments, so that many fit one frame.
PRESENTS = (MIDNIGHT + 4 * DAY - 1, MIDNIGHT + 4 * DAY)
_STEPS = (3600 * SECOND, 1, 6 * 3600 * SECOND, 2 * 3600 * SECOND, DAY // 2, DAY, DAY + 1)
_SIZES = (0, 1, SMALL_OBJECT_BYTES - 1, SMALL_OBJECT_BYTES, SMALL_OBJECT_BYTES + 1)
_MOVED_TO = ("GLACIER", "STANDARD_IA", "DEEP_ARCHIVE", "STANDARD")
# What locations serve: everything, or a few classes.
_SERVED = (STORAGE_CLASSES, STORAGE_CLASSES, STORAGE_CLASSES, ("STANDARD_IA", "GLACIER"))
_TAGS = ((("a", "1"),), (), (("a", "1"), ("b", "1")), (("a", "2"),))


@dataclass(frozen=True)
class History:
    events: tuple[Event, ...]
    bucket_context: BucketContext


class Writer:
    """A bucket with one key, as a store keeps it, that notes each change as an event. `choose` takes one of several."""

    def __init__(self, uid, key, choose, state):
        self.uid, self.key, self.choose = uid, key, choose
        self.state = state
        self.ts_ns = MIDNIGHT - 3 * DAY
        self.events = []
        self.versions = []  # version ids, newest first
        self.uploads = []
        self.made = 0

    def tick(self):
        self.ts_ns += self.choose(_STEPS)

    def note(self, operation, **fields):
        self.events.append(Event(self.ts_ns, operation, "p", "b", self.uid, "o", self.key, **fields))

    def new_version(self):
        if self.state is Versioning.OFF:
            version_id = ""
        elif self.state is Versioning.SUSPENDED:
            version_id = "null"
        else:
            self.made += 1
            version_id = f"v{self.made}"
        self.versions = [version_id, *(other for other in self.versions if other != version_id)]
        return version_id

    def put(self):
        self.note(
            EventKind.PUT,
            version_id=self.new_version(),
            size=self.choose(_SIZES),
            etag=f"e{self.made}",
            tags=self.choose(_TAGS),
            storage_class=self.choose(["", "STANDARD", "GLACIER"]),
            upload_id=self.complete(),
        )

    def complete(self):
        return self.uploads.pop() if self.uploads and self.choose([False, True]) else ""

    def remove(self):
        if self.state is Versioning.OFF:
            if self.versions:
                self.versions = []
                self.note(EventKind.DELETE)
        else:
            self.note(EventKind.DELETE_MARKER, version_id=self.new_version())

    def remove_version(self):
        if self.versions and self.state is not Versioning.OFF:
            version_id = self.choose(self.versions)
            self.versions.remove(version_id)
            self.note(EventKind.DELETE, version_id=version_id)

    def tag(self):
        if self.versions:
            named = "" if self.state is Versioning.OFF else self.choose(["", *self.versions])
            self.note(EventKind.TAGGING, version_id=named, tags=self.choose(_TAGS))

    def move(self):
        """The data of a version goes elsewhere. Without an id the null version is meant, which need not be there."""
        if self.versions:
            named = self.choose([*self.versions, ""])
            self.note(EventKind.MOVED, version_id=named, storage_class=self.choose(_MOVED_TO))

    def start_upload(self):
        self.made += 1
        self.uploads.append(f"u{self.made}")
        self.note(EventKind.UPLOAD_STARTED, upload_id=self.uploads[-1])

    def abort_upload(self):
        if self.uploads:
            self.note(EventKind.UPLOAD_ABORTED, upload_id=self.uploads.pop())

    def suspend_or_resume(self):
        """A bucket that has versioning never gets rid of it."""
        if self.state is not Versioning.OFF:
            self.state = Versioning.ENABLED if self.state is Versioning.SUSPENDED else Versioning.SUSPENDED
        elif self.choose([False, True]):
            self.state = Versioning.ENABLED
            self.versions = ["null" for _ in self.versions]


CHANGES = (
    Writer.put,
    Writer.put,
    Writer.put,
    Writer.put,
    Writer.remove,
    Writer.remove_version,
    Writer.tag,
    Writer.start_upload,
    Writer.abort_upload,
    Writer.suspend_or_resume,
)


@st.composite
def histories(draw):
    def choose(given):
        return draw(st.sampled_from(given))

    writer = Writer("uid", KEY, choose, choose([Versioning.ENABLED, *Versioning]))
    for _ in range(draw(st.integers(1, 12))):
        writer.tick()
        choose((*CHANGES, Writer.move))(writer)
    bucket_context = BucketContext(
        writer.state,
        day_seconds=draw(st.sampled_from([86_400, 43_200, 10])),
        minimum_transition_bytes=draw(st.sampled_from([0, 128 * 1024])),
        classes=draw(st.sampled_from(_SERVED)),
        keeps_null_markers=draw(st.sampled_from([False, False, False, True])),
    )
    return History(tuple(writer.events), bucket_context)


def generated_histories(count):
    """(bucket uid, key, events, rule set, context): each history has a bucket and a key of its own, since what shares a
    hash with a candidate is replayed with it."""
    found = generated(st.tuples(histories(), rule_sets()), count)
    return [
        (
            uid,
            key,
            tuple(amended(event, bucket_uid=uid, key=key) for event in history.events),
            rule_set,
            history.bucket_context,
        )
        for uid, key, (history, rule_set) in ((f"uid{n}", f"{KEY}{n}", case) for n, case in enumerate(found))
    ]


def fold(events):
    """The versions of the key, newest first, and its open uploads: the core's replay, with the times of taggings and
    of moves added one event after the other."""
    versions, uploads = [], {}
    for event in sorted(events, key=lambda event: event.ts_ns):
        before = versions
        if event.operation in (EventKind.PUT, EventKind.DELETE_MARKER):
            made = _made(event)
            versions = [made, *_without(versions, made.version_id)]
            uploads.pop(event.upload_id, None)
        elif event.operation is EventKind.DELETE:
            versions = _without(versions, event.version_id or "null")
        elif event.operation is EventKind.TAGGING:
            versions = _tagged(versions, event)
        elif event.operation is EventKind.MOVED:
            versions = [_in_class(version, event) for version in versions]
        elif event.operation is EventKind.UPLOAD_STARTED:
            uploads[event.upload_id] = Upload(event.upload_id, event.ts_ns)
        elif event.operation is EventKind.UPLOAD_ABORTED:
            uploads.pop(event.upload_id, None)
        versions = _moved(before, versions, event)
    return versions, list(uploads.values())


def _made(event):
    return Version(
        event.version_id or "null",
        event.ts_ns,
        size=event.size or 0,
        tags=event.tags,
        storage_class=event.storage_class,
        is_marker=event.operation is EventKind.DELETE_MARKER,
        etag=event.etag,
    )


def _without(versions, version_id):
    return [version for version in versions if version.version_id != version_id]


def _tagged(versions, event):
    for position, version in enumerate(versions):
        if not event.version_id or version.version_id == event.version_id:
            tagged = replace(version, tags=event.tags, tagged_ns=event.ts_ns)
            return [*versions[:position], tagged, *versions[position + 1 :]]
    return versions


def _in_class(version, event):
    is_meant = version.version_id == (event.version_id or "null")
    return replace(version, storage_class=event.storage_class) if is_meant else version


def _moved(before, versions, event):
    """A removal moves the version below the one that went, and the marker that it leaves alone."""
    left = {version.created_ns for version in versions}
    gone = {position for position, version in enumerate(before) if version.created_ns not in left}
    below = {before[position + 1].created_ns for position in gone if position + 1 < len(before)}
    alone = {version.created_ns for version in versions if gone and version.is_marker and len(versions) == 1}
    return [
        replace(version, moved_ns=event.ts_ns) if version.created_ns in below | alone else version
        for version in versions
    ]


def version_of(entry, bucket_context):
    """A plan's entry as Spark gives it: without versioning, a version has no id."""
    return replace(entry, version_id="") if bucket_context.versioning is Versioning.OFF else entry
