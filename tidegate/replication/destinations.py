"""The buckets at sites into which versions are replicated: whether they can take versions, and whose they are.

A location's credential reaches buckets of many pools. A bucket therefore belongs to the first pool whose rules name it,
by an entry in the tables for the host behind the location, since two locations may have the same host.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass

from tidegate.core.codec import JsonRecord
from tidegate.core.errors import Conflict, NotFound, TidegateError
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.records import Bucket, Pool
from tidegate.core.replication.rules import REPLICATION, ReplicationRule, ReplicationRules
from tidegate.ports import Store, Tables
from tidegate.table_pages import every

_DESTINATIONS = "rd:"
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class DestinationClaim(JsonRecord):
    """`created_at` is the pool's: a later pool of its name is another one."""

    pool: str
    created_at: float


def destinations_of(rules: Iterable[ReplicationRule]) -> dict[str, set[str]]:
    """The buckets that rules name, by site."""
    found: dict[str, set[str]] = {}
    for rule in rules:
        for site in rule.sites:
            found.setdefault(site, set()).add(rule.bucket)
    return found


# --- whose they are ----------------------------------------------------------------------------------------------


def is_anothers(tables: Tables, host: str, bucket: str, pool: str) -> bool:
    """Whether the bucket belongs to another pool, which still exists."""
    text = tables.get(_entry(host, bucket))
    return text is not None and text != _claim(tables, pool).to_json() and _stands(tables, text)


def claim(tables: Tables, host: str, bucket: str, pool: str, *, sites: Collection[str]) -> bool:
    """Makes the bucket the pool's; False if it belongs to another one, or if rules of another one name it, whose claim
    was for an address that the location had before. `sites` are all at that host."""
    entry, own = _entry(host, bucket), _claim(tables, pool).to_json()
    while True:
        text = tables.get(entry)
        if text is not None and (text == own or _stands(tables, text)):
            return text == own
        if _user_in_another_pool(tables, sites, bucket, pool) is not None:
            return False
        if tables.compare_and_set(entry, text, own):
            return True


def assign(tables: Tables, host: str, bucket: str, pool: str, *, sites: Collection[str]) -> None:
    """Gives the bucket to the pool, whoever has it. `sites` are all at that host. Raises `Conflict` while rules of
    another pool name the bucket."""
    entry, own = _entry(host, bucket), _claim(tables, pool).to_json()
    text = tables.get(entry)
    if not tables.compare_and_set(entry, text, own):
        raise Conflict(f"bucket {bucket} was given to another pool in the meantime; look again")
    user = _user_in_another_pool(tables, sites, bucket, pool)
    if user is not None:
        tables.compare_and_set(entry, own, text)
        raise Conflict(
            f"the replication rules of bucket {user.name} of pool {user.pool} name {bucket}: take it out of them first "
            "(aws s3api put-bucket-replication or delete-bucket-replication)"
        )


def claimed(tables: Tables) -> Iterator[tuple[str, str, str]]:
    """The host, the bucket and the pool of each that belongs to one."""
    for entry, text in every(tables, _DESTINATIONS):
        if _stands(tables, text):
            host, bucket = entry.removeprefix(_DESTINATIONS).split("/", 1)
            yield host, bucket, DestinationClaim.from_json(text).pool


def _user_in_another_pool(tables: Tables, sites: Collection[str], name: str, pool: str) -> Bucket | None:
    """A bucket of another pool that exists, whose rules name that bucket at one of the sites."""
    for bucket in (Bucket.from_json(text) for _, text in every(tables, Bucket.PREFIX)):
        is_others = bucket.pool != pool and tables.get(Pool.PREFIX + bucket.pool) is not None
        text = tables.get(REPLICATION + bucket.uid) if is_others else None
        rules = ReplicationRules.from_json(text).rules if text is not None else ()
        if any(rule.bucket == name and not set(sites).isdisjoint(rule.sites) for rule in rules):
            return bucket
    return None


def _entry(host: str, bucket: str) -> str:
    return f"{_DESTINATIONS}{host.lower()}/{bucket}"


def _claim(tables: Tables, pool: str) -> DestinationClaim:
    text = tables.get(Pool.PREFIX + pool)
    if text is None:
        raise NotFound(f"there is no pool {pool}")
    return DestinationClaim(pool, Pool.from_json(text).created_at)


def _stands(tables: Tables, text: str) -> bool:
    found = DestinationClaim.from_json(text)
    try:
        return _claim(tables, found.pool) == found
    except NotFound:
        return False


# --- what they are like ------------------------------------------------------------------------------------------


def why_unfit(store: Store, bucket: str) -> str:
    """Why versions cannot be replicated into the bucket, in S3's words; empty if they can."""
    try:
        versioning = store.versioning(bucket)
    except NotFound:
        return "Destination bucket must exist."
    return "" if versioning is Versioning.ENABLED else "Destination bucket must have versioning enabled."


def unfit_in(destinations: Mapping[str, Collection[str]], open_site: Callable[[str], Store]) -> dict[str, str]:
    """The buckets that cannot take versions, and why. Nothing is known of those at a site that does not answer, which
    is asked no further. All sites are asked at once."""

    def look(site: str) -> Iterator[tuple[str, str]]:
        try:
            with closing(open_site(site)) as store:
                for bucket in sorted(destinations[site]):
                    yield bucket, why_unfit(store, bucket)
        except TidegateError:
            return

    if not destinations:
        return {}
    with ThreadPoolExecutor(min(_AT_ONCE, len(destinations))) as pool:
        found = pool.map(lambda site: list(look(site)), destinations)
        return {bucket: why for looked in found for bucket, why in looked if why}
