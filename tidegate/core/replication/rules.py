"""The replication rules of a bucket as values: which versions go to which sites, and into which bucket there.

A site is a location. For each site, the enabled rule with the highest priority that matches a version decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from tidegate.core import codec
from tidegate.core.codec import JsonRecord
from tidegate.core.errors import InvalidInput
from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rules import Filter, digest

# A bucket's replication rules stand in the tables under this and the bucket's uid.
REPLICATION = "rp:"
# So many former configurations of a bucket are kept.
MOST_FORMER = 20


@dataclass(frozen=True, slots=True)
class ReplicationRule:
    """`bucket` is that at the sites. `since` (Unix time) is when the rule began to do what it does: what was written
    before is replicated on request only, if `existing_objects` allows it. `id_generated`: the writer gave no id."""

    id: str
    priority: int
    enabled: bool
    filter: Filter
    bucket: str
    sites: tuple[str, ...]
    delete_markers: bool = False
    existing_objects: bool = False
    since: float = 0.0
    id_generated: bool = False

    def digest(self) -> str:
        """Of what the rule does, not of its name."""
        return digest(
            {
                "enabled": self.enabled,
                "filter": self.filter.content(),
                "bucket": self.bucket,
                "sites": sorted(self.sites),
                "delete_markers": self.delete_markers,
            }
        )

    def matches(self, key: str, tags: Pairs, *, is_marker: bool) -> bool:
        """A delete marker has no tags, and so matches no rule that asks for some."""
        if not self.enabled or not key.startswith(self.filter.prefix or ""):
            return False
        if is_marker:
            return not self.filter.tags
        return set(self.filter.tags) <= set(tags)


@dataclass(frozen=True, slots=True)
class FormerRules:
    """What stood until a time (Unix). The log may tell later of what was written before."""

    rules: tuple[ReplicationRule, ...]
    until: float


@dataclass(frozen=True, slots=True)
class ReplicationRules(JsonRecord):
    """A bucket's replication configuration. `source` is the XML as it was put. `former` are the configurations before
    it, the oldest first."""

    rules: tuple[ReplicationRule, ...]
    role: str = ""
    source: str = ""
    former: tuple[FormerRules, ...] = ()

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return codec.decoded(text, cls, "stored replication configuration")

    def targets(self, key: str, tags: Pairs = (), *, is_marker: bool = False, written_at: float) -> dict[str, str]:
        """The bucket at each site to which the version goes, by the site's name: by the rules that stood when it was
        written. `written_at` is a Unix time."""
        return _chosen(self.rules_at(written_at), key, tags, is_marker=is_marker)

    def existing_targets(self, key: str, tags: Pairs = (), *, is_marker: bool = False) -> dict[str, str]:
        """The same for a version that was written before the rules, and that an operator asks for."""
        return _chosen(self.rules, key, tags, is_marker=is_marker)

    def may_send(self, key: str, tags: Pairs) -> bool:
        """Whether rules that stand, or stood once, send an object to some site."""
        known = (self.rules, *(former.rules for former in self.former))
        return any(rule.matches(key, tags, is_marker=False) for rules in known for rule in rules)

    def rules_at(self, written_at: float) -> tuple[ReplicationRule, ...]:
        """Those that stood then, as far as they are known."""
        standing = next((former.rules for former in self.former if written_at < former.until), self.rules)
        return tuple(rule for rule in standing if rule.since <= written_at)

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of the rules that are enabled, sorted."""
        return tuple(sorted({site for rule in self.rules if rule.enabled for site in rule.sites}))

    @property
    def needs_tags(self) -> bool:
        """To know where a version goes, whenever it was written."""
        known = (self.rules, *(former.rules for former in self.former))
        return any(rule.enabled and rule.filter.tags for rules in known for rule in rules)

    def after(self, earlier: Self | None, *, now: float) -> Self:
        """With the times since when its rules do what they do: one that did the same before keeps its time. What stood
        before is kept beside them, for versions that were written under it."""
        if earlier is None:
            return replace(self, rules=tuple(replace(rule, since=now) for rule in self.rules))
        known = {rule.digest(): rule.since for rule in earlier.rules}
        rules = tuple(replace(rule, since=known.get(rule.digest(), now)) for rule in self.rules)
        is_same = self.digest() == earlier.digest()
        former = earlier.former if is_same else (*earlier.former, FormerRules(earlier.rules, now))
        return replace(self, rules=rules, former=former[-MOST_FORMER:])

    def digest(self) -> str:
        """Of what they do: neither names of rules nor the way they were written count."""
        return digest([[rule.priority, rule.digest()] for rule in self.rules])


def _chosen(rules: Iterable[ReplicationRule], key: str, tags: Pairs, *, is_marker: bool) -> dict[str, str]:
    chosen: dict[str, ReplicationRule] = {}
    for rule in sorted(rules, key=lambda rule: rule.priority):
        if rule.matches(key, tags, is_marker=is_marker):
            chosen |= dict.fromkeys(rule.sites, rule)
    return {site: rule.bucket for site, rule in chosen.items() if rule.delete_markers or not is_marker}


def check_sites(sites: Iterable[str], known: Sequence[str]) -> None:
    """Raises `InvalidInput` for the first site that is no location."""
    for site in sites:
        if site not in known:
            raise InvalidInput(
                f"there is no site {site!r}: tidegate location list shows those there are, "
                "and tidegate location create makes one"
            )
