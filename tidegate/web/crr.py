"""Replication by site, with the routes, names and shapes of Backbeat's API: whether a site is paused, and its metrics.

The list of failures is in `crr_failed`.
"""

from __future__ import annotations

import time
from typing import Annotated, Any

import msgspec
from fastapi import APIRouter, Depends, Query
from starlette.convertors import PathConvertor, register_url_convertor

from tidegate.core import codec
from tidegate.core.errors import InvalidInput
from tidegate.core.locations import EVERY_SITE
from tidegate.core.replication.metric_views import Metric
from tidegate.replication.desk import HOUR_SECONDS, ReplicationDesk
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.crr_failed import Body, shown_moment
from tidegate.web.service import OfRequest

router = APIRouter(prefix="/_", dependencies=[Depends(require_token)], responses=ERRORS, tags=["replication"])

_USUAL_HOURS = 6
# In the order of Backbeat's answer. What is pending has a route of its own.
_ALL_METRICS = (Metric.BACKLOG, Metric.COMPLETIONS, Metric.FAILURES, Metric.THROUGHPUT, Metric.PENDING)
_SCHEDULE = {"type": "object", "properties": {"hours": {"type": "number", "default": _USUAL_HOURS}}}
_HOURS = {"requestBody": {"content": {"application/json": {"schema": _SCHEDULE}}}}


class _KeyConvertor(PathConvertor):
    """The rest of a path, also where a key has line breaks."""

    regex = "(?s:.*)"


register_url_convertor("key", _KeyConvertor())


class _Schedule(msgspec.Struct):
    hours: float | None = None


def desk_of(service: OfRequest) -> ReplicationDesk:
    return ReplicationDesk(service.tables, service.topics, service.locations.all, service.locations.store)


_Desk = Annotated[ReplicationDesk, Depends(desk_of)]
_VersionId = Annotated[str, Query(alias="versionId", max_length=255, description="Empty: the newest version.")]


# --- whether sites are paused --------------------------------------------------------------------


@router.get("/crr/status", summary="Of each site: enabled, or disabled while it is paused")
def all_statuses(desk: _Desk) -> dict[str, str]:
    return site_status(desk, EVERY_SITE)


@router.get("/crr/status/{site}", summary="The same of one site")
def site_status(desk: _Desk, site: str) -> dict[str, str]:
    found = desk.paused(desk.sites(site), now=time.time())
    return {name: "enabled" if pause is None else "disabled" for name, pause in found.items()}


@router.post("/crr/pause", summary="Pause all sites; what is for them waits")
def pause_all(desk: _Desk) -> dict[str, str]:
    return pause_site(desk, EVERY_SITE)


@router.post("/crr/pause/{site}", summary="Pause a site, until it is resumed")
def pause_site(desk: _Desk, site: str) -> dict[str, str]:
    desk.pause(desk.sites(site), now=time.time())
    return {}


@router.post("/crr/resume", summary="Resume all sites")
def resume_all(desk: _Desk) -> dict[str, str]:
    return resume_site(desk, EVERY_SITE)


@router.post("/crr/resume/{site}", summary="Resume a site now")
def resume_site(desk: _Desk, site: str) -> dict[str, str]:
    desk.resume(desk.sites(site))
    return {}


@router.get("/crr/resume/{site}", summary="When a paused site resumes by itself, or none; `all` is every site")
def show_schedule(desk: _Desk, site: str) -> dict[str, str]:
    found = desk.paused(desk.sites(site), now=time.time())
    return {
        name: "none" if pause is None or pause.resume_at is None else shown_moment(pause.resume_at)
        for name, pause in found.items()
    }


@router.post("/crr/resume/{site}/schedule", summary="Have a paused site resume in so many hours", openapi_extra=_HOURS)
def schedule_resume(desk: _Desk, site: str, body: Body) -> dict[str, str]:
    desk.resume_in(desk.sites(site), _hours(body) * HOUR_SECONDS, now=time.time())
    return {}


@router.delete("/crr/resume/{site}/schedule", summary="Keep it paused until it is resumed")
def drop_schedule(desk: _Desk, site: str) -> dict[str, str]:
    desk.keep_paused(desk.sites(site), now=time.time())
    return {}


def _hours(body: bytes) -> float:
    if not body.strip():
        return _USUAL_HOURS
    hours = codec.decoded(body, _Schedule, 'schedule such as {"hours": 6}').hours
    return _USUAL_HOURS if hours is None else hours


# --- metrics -------------------------------------------------------------------------------------


@router.get("/metrics/crr/{site}", summary="All metrics of a site, or of `all` together")
def all_metrics(desk: _Desk, site: str) -> dict[str, Any]:
    return desk.metrics(site, _ALL_METRICS, now=time.time())


@router.get(
    "/metrics/crr/{site}/{metric}", summary="One of backlog, completions, failures, throughput and pending; or all"
)
def one_metric(desk: _Desk, site: str, metric: str) -> dict[str, Any]:
    if metric == EVERY_SITE:
        return all_metrics(desk, site)
    if metric not in set(Metric):
        raise InvalidInput(f"there is no metric {metric!r}: ask for {', '.join(Metric)} or {EVERY_SITE}")
    return desk.metrics(site, [Metric(metric)], now=time.time())


@router.get("/metrics/crr/{site}/progress/{bucket}/{key:key}", summary="How much of a version the site has")
def object_progress(desk: _Desk, site: str, bucket: str, key: str, version_id: _VersionId = "") -> dict[str, Any]:
    return desk.progress(site, bucket, key, version_id)


@router.get("/metrics/crr/{site}/throughput/{bucket}/{key:key}", summary="How fast a version came to the site")
def object_throughput(desk: _Desk, site: str, bucket: str, key: str, version_id: _VersionId = "") -> dict[str, Any]:
    return desk.object_throughput(site, bucket, key, version_id, now=time.time())
