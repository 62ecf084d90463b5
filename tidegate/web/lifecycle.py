"""The part of the HTTP API that shows and starts lifecycle."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.assembly import open_store
from tidegate.core.errors import Unavailable
from tidegate.lifecycle.inspection import AuditView, Inspector, KeyExplanationView, LifecycledBucketView, PassView
from tidegate.lifecycle.stores import Stores
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.service import OfRequest, Service

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_token)], responses=ERRORS, tags=["lifecycle"])


class NewPass(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bucket: str = Field("", max_length=255, description="Only this bucket; empty: all that have rules.")


def _inspector(service: OfRequest) -> Inspector:
    return Inspector(service.tables, service.topics, service.settings.lifecycle, partial(_stores, service))


def _stores(service: Service) -> Stores:
    endpoints = service.directory.endpoints()
    if endpoints is None:
        raise Unavailable("the gateways are not ready; try again in a moment")
    return Stores(service.registry, partial(open_store, endpoints.s3))


_Inspector = Annotated[Inspector, Depends(_inspector)]


@router.get("/lifecycle/buckets", summary="Buckets with rules to carry out")
def lifecycled_buckets(inspector: _Inspector) -> list[LifecycledBucketView]:
    return inspector.buckets()


@router.get("/lifecycle/explain", summary="What each rule says of an object's versions, and the last decision")
def explain_object(
    inspector: _Inspector,
    bucket: Annotated[str, Query(max_length=255)],
    key: Annotated[str, Query(max_length=1024)],
    version: Annotated[str, Query(max_length=1024, description="Only this version.")] = "",
) -> KeyExplanationView:
    return inspector.explain(bucket, key, version)


@router.post("/lifecycle/run", summary="Start a pass now", status_code=202)
def run_lifecycle(inspector: _Inspector, new: NewPass) -> PassView:
    return inspector.run(new.bucket)


@router.get("/audit", summary="What lifecycle did: the newest records, the oldest of them first")
def read_audit(
    inspector: _Inspector,
    bucket: Annotated[str, Query(max_length=255)] = "",
    key: Annotated[str | None, Query(max_length=1024)] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> list[AuditView]:
    return inspector.audit(bucket=bucket, key=key, count=limit)
