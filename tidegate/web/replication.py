"""The part of the HTTP API about replication that Backbeat's routes have nothing for."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.replication.desk import DestinationView, HistoryView, ReplicationDesk, SiteStatusView, VersionAtSiteView
from tidegate.replication.failures import Selection
from tidegate.replication.site_health import SiteHealthView, health_of
from tidegate.replication.stored_rules import StoredRules
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.crr import desk_of
from tidegate.web.crr_failed import retry_of
from tidegate.web.service import OfRequest

router = APIRouter(
    prefix="/api/v1/replication", dependencies=[Depends(require_token)], responses=ERRORS, tags=["replication"]
)
_Desk = Annotated[ReplicationDesk, Depends(desk_of)]


class WhatToRetry(BaseModel):
    """What is empty leaves it open."""

    model_config = ConfigDict(extra="forbid")

    bucket: str = Field("", max_length=255)
    key: str = Field("", max_length=1024)
    version_id: str = Field("", max_length=255)
    site: str = Field("", max_length=255)
    marker: str = Field("", max_length=8192, description="`next_marker` of the answer before.")


class AssignedTo(BaseModel):
    model_config = ConfigDict(extra="forbid")

    pool: str = Field(max_length=255)


class RetriedView(BaseModel):
    """What became of one page of the list of failures."""

    retried: int
    next_marker: str = Field(description="Ask again with this for the next page; empty: there is none.")


@router.get("", summary="By site: versions that are pending, completed and failed, of one bucket or of all")
def status(desk: _Desk, bucket: Annotated[str, Query(max_length=255)] = "") -> list[SiteStatusView]:
    return desk.status(bucket, now=time.time())


@router.post("/retry", summary="Retry all failures that match, page by page")
def retry(service: OfRequest, what: WhatToRetry) -> RetriedView:
    selection = Selection(bucket=what.bucket, key=what.key, version_id=what.version_id, site=what.site)
    page = retry_of(service).retry_page(selection, what.marker, now=time.time())
    return RetriedView(retried=len(page.failures), next_marker=page.next_marker)


@router.get("/version", summary="How far a version is at each of its sites")
def version(
    desk: _Desk,
    bucket: Annotated[str, Query(max_length=255)],
    key: Annotated[str, Query(max_length=1024)],
    version_id: Annotated[str, Query(max_length=255, description="Empty: the newest.")] = "",
) -> list[VersionAtSiteView]:
    return desk.version(bucket, key, version_id)


@router.get("/history", summary="The newest failures and retries, also of what has expired from the list of failures")
def history(
    desk: _Desk,
    bucket: Annotated[str, Query(max_length=255)] = "",
    key: Annotated[str, Query(max_length=1024)] = "",
    site: Annotated[str, Query(max_length=255)] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> list[HistoryView]:
    return desk.history(bucket=bucket, key=key, site=site, count=limit)


@router.get("/health", summary="Whether each site can be reached, its bucket be read, and destinations take versions")
def health(service: OfRequest, desk: _Desk, site: Annotated[str, Query(max_length=24)] = "all") -> list[SiteHealthView]:
    return health_of(service.locations, desk.sites(site), StoredRules(desk.tables).destinations())


@router.get("/destinations", summary="Buckets at sites that belong to a pool")
def destinations(desk: _Desk) -> list[DestinationView]:
    return desk.destinations()


@router.put("/destinations/{site}/{bucket}", summary="Give a bucket at a site to a pool")
def assign(desk: _Desk, site: str, bucket: str, to: AssignedTo) -> DestinationView:
    return desk.assign(site, bucket, to.pool)
