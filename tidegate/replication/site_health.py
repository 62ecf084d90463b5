"""Whether sites can be reached: one request each, which changes nothing. `tidegate location check` does more."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

from pydantic import BaseModel, Field

from tidegate.core.errors import TidegateError
from tidegate.movement.location_check import CHECKS
from tidegate.movement.locations import Locations
from tidegate.replication.destinations import why_unfit

_AT_ONCE = 16


class SiteHealthView(BaseModel):
    site: str
    ok: bool
    milliseconds: float
    message: str = Field(description="What went wrong; empty: nothing.")


def health_of(
    locations: Locations, sites: Sequence[str], destinations: Mapping[str, Collection[str]]
) -> list[SiteHealthView]:
    """Of the bucket that each location names, and of the buckets into which versions are replicated. All sites are
    asked at once: one that does not answer delays no other."""
    if not sites:
        return []
    with ThreadPoolExecutor(min(_AT_ONCE, len(sites))) as pool:
        return list(pool.map(lambda site: _health(locations, site, destinations.get(site, ())), sites))


def _health(locations: Locations, site: str, destinations: Collection[str]) -> SiteHealthView:
    began = time.perf_counter()
    message = ""
    try:
        location = locations.get(site)
        # HEAD of an object would not tell a missing bucket from a missing object.
        store = locations.store(site)
        store.list_objects(location.bucket, prefix=location.prefix + CHECKS, limit=1)
        found = ((bucket, why_unfit(store, bucket)) for bucket in sorted(destinations))
        message = " ".join(f"{bucket}: {why}" for bucket, why in found if why)
    except TidegateError as error:
        message = str(error)
    spent = (time.perf_counter() - began) * 1000
    return SiteHealthView(site=site, ok=not message, milliseconds=round(spent, 1), message=message)
