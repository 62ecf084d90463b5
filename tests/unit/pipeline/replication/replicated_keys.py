"""Generated keys with their versions, records and copies, and what a comparison should find: in plain Python."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hypothesis import strategies as st

from tidegate.core.lifecycle.rules import Filter
from tidegate.core.replication.records import ReplicationRecord, SiteState, Status
from tidegate.core.replication.rules import ReplicationRule, ReplicationRules

UID = "u" * 8
SECOND_NS = 1_000_000_000
# Rules begin here; versions are from the ten seconds before and after.
SINCE = 1_000
NORTH, SOUTH = "north", "south"
BUCKETS = {NORTH: "copies-n", SOUTH: "copies-s"}


def rule(name, priority, sites, *, bucket, since=SINCE, **options):
    where = Filter(prefix=options.pop("prefix", ""), tags=options.pop("tags", ()))
    enabled = options.pop("enabled", True)
    return ReplicationRule(name, priority, enabled, where, bucket, sites, since=float(since), **options)


RULES = ReplicationRules(
    (
        rule("all to the north", 1, (NORTH,), bucket="copies-n", delete_markers=True),
        rule("old ones, too", 5, (NORTH,), bucket="copies-n", prefix="old/", existing_objects=True),
        rule("tagged ones", 3, (NORTH, SOUTH), bucket="copies-s", tags=(("copy", "yes"),), existing_objects=True),
        rule("switched off", 9, (NORTH, SOUTH), bucket="copies-n", enabled=False),
        rule("of equal rank", 5, (SOUTH,), bucket="copies-s", prefix="old/", since=SINCE + 5, delete_markers=True),
        rule("the last of equal rank", 5, (SOUTH,), bucket="copies-s", prefix="old/a", delete_markers=True),
    )
)
LISTED_BUCKETS = [(NORTH, "copies-n"), (NORTH, "copies-s"), (SOUTH, "copies-s")]


@dataclass(frozen=True)
class Copy:
    """What lies at a site: `is_there`, of another size, and so on."""

    is_there: bool = True
    has_other_size: bool = False
    has_other_etag: bool = False
    is_other_kind: bool = False


@dataclass(frozen=True)
class State:
    status: Status
    copy: Copy | None = None


@dataclass(frozen=True)
class Version:
    """`second` is what the store shows of its time; `event_ns` that of its record, if it has one."""

    number: int
    second: int
    is_marker: bool
    tags: tuple[tuple[str, str], ...]
    is_recorded: bool
    is_replica: bool
    north: State | None
    south: State | None

    @property
    def id(self) -> str:
        return f"v{self.number}"


@dataclass(frozen=True)
class Key:
    """Versions are the oldest first. `swapped` puts the two newest copies at a site the wrong way round."""

    name: str
    versions: tuple[Version, ...]
    swapped: tuple[str, ...]
    strangers: tuple[str, ...] = field(default=())

    def event_ns(self, version):
        """Times of events rise with the versions."""
        return version.second * SECOND_NS + 10_000 * (version.number + 1)

    def states(self, version):
        if not version.is_recorded or version.is_replica:
            return {}
        return {site: state for site, state in ((NORTH, version.north), (SOUTH, version.south)) if state is not None}

    # --- what is listed --------------------------------------------------------------------------

    def source_rows(self):
        newest_first = list(reversed(self.versions))
        return [
            (
                UID, self.name, version.id, (version.second + 1) * SECOND_NS - 1, "", 0 if version.is_marker else 10,
                "" if version.is_marker else "e", dict(version.tags), version.is_marker, place == 0, place,
            )
            for place, version in enumerate(newest_first)
        ]  # fmt: skip

    def records(self):
        found = []
        for version in self.versions:
            if version.is_recorded:
                record = ReplicationRecord(
                    "p", "b", UID, self.name, version.id, self.event_ns(version), float(version.second),
                    size=0 if version.is_marker else 10, etag="e", is_marker=version.is_marker,
                    is_replica=version.is_replica,
                )  # fmt: skip
                for site, state in self.states(version).items():
                    has_copy = state.copy is not None
                    record = record.with_state(
                        SiteState(
                            site,
                            BUCKETS[site],
                            state.status,
                            1.0,
                            replica_version_id=f"c{version.number}" if has_copy else "",
                            replica_etag="ce" if has_copy and not version.is_marker else "",
                        )
                    )
                found.append(record)
        return found

    def copies(self, site):
        """Of the bucket to which records send, the newest first."""
        there = [
            (version, self.states(version)[site].copy)
            for version in reversed(self.versions)
            if site in self.states(version)
            and self.states(version)[site].copy is not None
            and self.states(version)[site].copy.is_there
        ]
        if site in self.swapped and len(there) > 1:
            there[:2] = there[1::-1]
        return there

    def site_rows(self):
        rows = []
        for site, bucket in BUCKETS.items():
            entries = [
                (
                    f"c{version.number}", version.is_marker != copy.is_other_kind,
                    (0 if version.is_marker else 10) + (5 if copy.has_other_size else 0),
                    "other" if copy.has_other_etag else "ce",
                )
                for version, copy in self.copies(site)
            ]  # fmt: skip
            if site in self.strangers:
                entries.append(("stranger", False, 3, "se"))
            rows += [
                (site, bucket, self.name, copy_id, place == 0, is_marker, size, etag, 7 * SECOND_NS, place)
                for place, (copy_id, is_marker, size, etag) in enumerate(entries)
            ]
        return rows

    # --- what should be found --------------------------------------------------------------------

    def meant(self):
        """(version, site, bucket, state) for all that should be at a site."""
        for version in self.versions:
            if version.is_recorded and version.is_replica:
                continue
            states = self.states(version)
            written_at = self.event_ns(version) / SECOND_NS if version.is_recorded else float(version.second)
            for site in BUCKETS:
                rule = _decisive(site, self.name, version, written_at)
                if rule is None or not (site in states or _is_for(rule, written_at)):
                    continue
                is_elsewhere = site in states and rule.existing_objects and rule.bucket != BUCKETS[site]
                is_known = site in states and not is_elsewhere
                yield version, site, BUCKETS[site] if is_known else rule.bucket, states[site] if is_known else None

    def missing(self):
        for version, site, _, state in self.meant():
            lack = _lack(state)
            if lack:
                yield self.name, version.id, site, lack

    def different(self):
        for version, site, _, state in self.meant():
            if state is None or state.status is not Status.COMPLETED or _lack(state):
                continue
            there = [each for each, _ in self.copies(site)]
            place = there.index(version)
            newer = [
                there.index(other)
                for other, at, _, known in self.meant()
                if at == site and other.number > version.number and other in there
                and known is not None and known.status is Status.COMPLETED
            ]  # fmt: skip
            copy = state.copy
            reason = (
                "marker" if copy.is_other_kind
                else "size" if copy.has_other_size and not version.is_marker
                else "etag" if copy.has_other_etag and not version.is_marker
                else "order" if newer and max(newer) > place
                else ""
            )  # fmt: skip
            if reason:
                yield self.name, version.id, site, reason

    def extra(self):
        return [(self.name, "stranger", site) for site in self.strangers]


def _is_for(each, written_at):
    return each.existing_objects or each.since <= written_at


def _decisive(site, key, version, written_at):
    """The rule that decides where the version goes: one that is for it rather than one that is not."""
    matching = [
        each
        for each in RULES.rules
        if site in each.sites and each.matches(key, version.tags, is_marker=version.is_marker)
    ]
    for rules in ([each for each in matching if _is_for(each, written_at)], matching):
        decisive = sorted(rules, key=lambda each: each.priority)[-1:]
        if decisive and (decisive[0].delete_markers or not version.is_marker):
            return decisive[0]
    return None


def _lack(state):
    if state is None:
        return "no record"
    if state.status is Status.COMPLETED:
        return "" if state.copy.is_there else "no copy"
    return state.status.value.lower()


copies = st.builds(
    Copy,
    is_there=st.sampled_from([True, True, True, False]),
    has_other_size=st.sampled_from([False] * 5 + [True]),
    has_other_etag=st.sampled_from([False] * 5 + [True]),
    is_other_kind=st.sampled_from([False] * 7 + [True]),
)
states = st.one_of(
    st.none(),
    st.builds(State, st.just(Status.COMPLETED), copies),
    st.builds(State, st.just(Status.COMPLETED), copies),
    st.builds(State, st.sampled_from([Status.PENDING, Status.FAILED])),
)
versions = st.builds(
    Version,
    number=st.just(0),
    second=st.integers(SINCE - 3, SINCE + 8),
    is_marker=st.booleans(),
    tags=st.sampled_from([(), (), (("copy", "yes"),), (("copy", "no"), ("x", "y"))]),
    is_recorded=st.booleans(),
    is_replica=st.sampled_from([False] * 6 + [True]),
    north=states,
    south=states,
)


@st.composite
def histories(draw):
    """Without a name, which tells keys apart."""
    drawn = sorted(draw(st.lists(versions, min_size=1, max_size=5)), key=lambda version: version.second)
    numbered = tuple(
        replace(version, number=number, tags=() if version.is_marker else version.tags)
        for number, version in enumerate(drawn)
    )
    sites = st.lists(st.sampled_from([NORTH, SOUTH]), max_size=2, unique=True).map(tuple)
    prefix = draw(st.sampled_from(["old/", "old/a", "new/"]))
    return Key(prefix, numbered, swapped=draw(sites), strangers=draw(sites))


def named(keys):
    return [replace(key, name=f"{key.name}{number:05}é") for number, key in enumerate(keys)]
