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
class ReplicationRules(JsonRecord):
    """A bucket's replication configuration. `source` is the XML as it was put."""

    rules: tuple[ReplicationRule, ...]
    role: str = ""
    source: str = ""

    @classmethod
    def from_json(cls, text: str | bytes) -> Self:
        return codec.decoded(text, cls, "stored replication configuration")

    def targets(self, key: str, tags: Pairs = (), *, is_marker: bool = False, written_at: float) -> dict[str, str]:
        """The bucket at each site to which the version goes, by the site's name. `written_at` is a Unix time."""
        chosen = self._chosen(key, tags, is_marker=is_marker)
        return {site: rule.bucket for site, rule in chosen.items() if rule.since <= written_at}

    def existing_targets(self, key: str, tags: Pairs = (), *, is_marker: bool = False) -> dict[str, str]:
        """The same for a version that was written before the rules, and that an operator asks for."""
        return {site: rule.bucket for site, rule in self._chosen(key, tags, is_marker=is_marker).items()}

    def _chosen(self, key: str, tags: Pairs, *, is_marker: bool) -> dict[str, ReplicationRule]:
        chosen: dict[str, ReplicationRule] = {}
        for rule in sorted(self.rules, key=lambda rule: rule.priority):
            if rule.matches(key, tags, is_marker=is_marker):
                chosen |= dict.fromkeys(rule.sites, rule)
        return {site: rule for site, rule in chosen.items() if rule.delete_markers or not is_marker}

    @property
    def sites(self) -> tuple[str, ...]:
        """The sites of the rules that are enabled, sorted."""
        return tuple(sorted({site for rule in self.rules if rule.enabled for site in rule.sites}))

    @property
    def needs_tags(self) -> bool:
        return any(rule.enabled and rule.filter.tags for rule in self.rules)

    def after(self, earlier: Self | None, *, now: float) -> Self:
        """With the times since when its rules do what they do: one that did the same before keeps its time."""
        known = {rule.digest(): rule.since for rule in earlier.rules} if earlier is not None else {}
        rules = tuple(replace(rule, since=known.get(rule.digest(), now)) for rule in self.rules)
        return replace(self, rules=rules)

    def digest(self) -> str:
        """Of what they do: neither names of rules nor the way they were written count."""
        return digest([[rule.priority, rule.digest()] for rule in self.rules])


def check_sites(sites: Iterable[str], known: Sequence[str]) -> None:
    """Raises `InvalidInput` for the first site that is no location."""
    for site in sites:
        if site not in known:
            raise InvalidInput(
                f"there is no site {site!r}: tidegate location list shows those there are, "
                "and tidegate location create makes one"
            )
