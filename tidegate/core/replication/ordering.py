"""In which order the versions of a key are put at a site, and which of them are there already.

What is put last is current there. A version that comes late, because it failed before and was asked for again, is
therefore followed once more by those that are newer and had arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from tidegate.core.replication.records import ReplicationRecord, SiteState, Status

_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class SiteVersion:
    """A version of the key that a site shows. `replica_of` is the version that it is a copy of, if that is known."""

    version_id: str
    etag: str = ""
    is_marker: bool = False
    replica_of: str = ""

    def is_copy_of(self, record: ReplicationRecord) -> bool:
        """Markers tell nothing of themselves: one that is nobody's copy is taken for the one that is looked for."""
        if self.replica_of:
            return self.replica_of == record.version_id
        return self.is_marker and record.is_marker


def state_at(record: ReplicationRecord, site: str) -> SiteState:
    state = record.at(site)
    assert state is not None, "only records that name the site are ordered"
    return state


def has_copy(state: SiteState) -> bool:
    """Whether the version has arrived once; its tags may have been changed since."""
    return state.status is Status.COMPLETED or bool(state.replica_version_id)


def to_put(
    records: Sequence[ReplicationRecord],
    site: str,
    wanted: ReplicationRecord,
    arrived: Collection[str],
    *,
    since_ns: int = 0,
) -> tuple[ReplicationRecord, ...]:
    """What is to be put so that the wanted version arrives in its order: itself, what is older and waits, and what is
    newer than any of them and has arrived. `records` are those of the key that go to the same place, the oldest first;
    `arrived` are the ids of versions that have copies there. With `since_ns` the order of all that have arrived is in
    doubt from that time on."""

    def is_missing(record: ReplicationRecord) -> bool:
        if record.version_id in arrived or record.ts_ns > wanted.ts_ns:
            return False
        return record.version_id == wanted.version_id or state_at(record, site).status is Status.PENDING

    def is_in_doubt(record: ReplicationRecord) -> bool:
        return bool(since_ns) and record.ts_ns >= since_ns and record.version_id in arrived

    begins = (number for number, record in enumerate(records) if is_missing(record) or is_in_doubt(record))
    first = next(begins, len(records))
    return tuple(record for record in records[first:] if is_missing(record) or record.version_id in arrived)


def already_there(
    sequence: Sequence[ReplicationRecord],
    shown: Sequence[SiteVersion],
    *,
    copies: Mapping[str, str] = _NONE,
    older: Collection[str] = (),
) -> tuple[SiteVersion | None, ...]:
    """For each version of the sequence its copy, if it lies above those of the versions before it. `shown` is what the
    site shows of the key, the oldest first. Where one is missing, it comes on top when it is put, and so must all that
    follow it.

    `copies` are the ids of copies that are known, by version: nothing else is a copy of such a version. `older` are the
    versions before the sequence: what lies below one of their copies may be a former copy that is to be deleted."""
    found: list[SiteVersion | None] = []
    position = max((place + 1 for place, version in enumerate(shown) if version.replica_of in older), default=0)
    for record in sequence:
        known = copies.get(record.version_id, "")
        places = (
            place
            for place in range(position, len(shown))
            if (shown[place].version_id == known if known else shown[place].is_copy_of(record))
        )
        place = next(places, None)
        if place is None:
            break
        found.append(shown[place])
        position = place + 1
    return (*found, *[None] * (len(sequence) - len(found)))
