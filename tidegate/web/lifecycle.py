"""The part of the HTTP API that shows and starts lifecycle."""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate.assembly import open_store
from tidegate.core.errors import Unavailable
from tidegate.lifecycle.acting.stores import Stores
from tidegate.lifecycle.queries.control import LifecycleControl, LifecycleStateView
from tidegate.lifecycle.queries.inspection import AuditView, Inspector, KeyExplanationView, LifecycledBucketView
from tidegate.lifecycle.queries.pass_inspection import (
    CurrentPassView,
    EngineName,
    PassDetailView,
    PassInspector,
    PassRequestView,
    PassView,
)
from tidegate.lifecycle.queries.simulation import SimulationView
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.service import OfRequest, Service

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_token)], responses=ERRORS, tags=["lifecycle"])


class NewPass(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bucket: str = Field("", max_length=255, description="Only this bucket; empty: all that have rules.")
    dry_run: bool = Field(False, description="Only plan: nothing is done.")
    engine: EngineName = Field("", description="Empty: the configured one.")


class RulesToSimulate(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bucket: str = Field(max_length=255)
    rules: str | dict[str, Any] = Field(
        description="The body of PutBucketLifecycleConfiguration, or the AWS command line's JSON."
    )
    days: int = Field(30, ge=1, le=3660, description="How many days to look ahead.")
    minimum: str | None = Field(None, description="x-amz-transition-default-minimum-object-size.")
    most_keys: int = Field(
        100_000, ge=1, le=10_000_000, description="After so many keys the answer is given, complete or not."
    )


def inspector_of(service: OfRequest) -> Inspector:
    settings = service.settings
    return Inspector(
        service.tables,
        service.topics,
        settings.lifecycle,
        partial(stores_of, service),
        settings.locations,
        settings.replication.hold_failed,
    )


def stores_of(service: Service) -> Stores:
    endpoints = service.directory.endpoints()
    if endpoints is None:
        raise Unavailable("the gateways are not ready; try again in a moment")
    return Stores(service.registry, partial(open_store, endpoints.s3))


_Inspector = Annotated[Inspector, Depends(inspector_of)]


def control_of(service: OfRequest) -> LifecycleControl:
    return LifecycleControl(service.tables, service.topics, service.settings.lifecycle)


_Control = Annotated[LifecycleControl, Depends(control_of)]


class WhatToStop(BaseModel):
    model_config = ConfigDict(extra="forbid")

    bucket: str = Field("", max_length=255, description="Only this bucket; empty: everything.")


@router.get("/lifecycle", summary="Whether rules are carried out, and what keeps them from it")
def lifecycle_state(control: _Control) -> LifecycleStateView:
    return control.state()


@router.post("/lifecycle/stop", summary="Stop all acting at once, or that in one bucket, and drop what is queued")
def stop_lifecycle(control: _Control, what: WhatToStop) -> LifecycleStateView:
    return control.stop(what.bucket)


@router.post("/lifecycle/resume", summary="Let it go on; what was dropped is planned again")
def resume_lifecycle(control: _Control, what: WhatToStop) -> LifecycleStateView:
    return control.resume(what.bucket)


@router.post("/lifecycle/confirm-clock", summary="Say that the clock of the API's machine is right")
def confirm_clock(control: _Control) -> LifecycleStateView:
    return control.confirm_clock()


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


@router.post("/lifecycle/simulate", summary="What rules would do to a bucket and when, before they are put")
def simulate_rules(inspector: _Inspector, new: RulesToSimulate) -> SimulationView:
    document = new.rules if isinstance(new.rules, str) else json.dumps(new.rules)
    return inspector.simulate(
        new.bucket,
        document.encode(),
        days=new.days,
        minimum=new.minimum,
        progress=lambda keys: keys < new.most_keys,
    )


@router.get("/audit", summary="What lifecycle did: the newest records, the oldest of them first")
def read_audit(
    inspector: _Inspector,
    bucket: Annotated[str, Query(max_length=255)] = "",
    key: Annotated[str | None, Query(max_length=1024)] = None,
    limit: Annotated[int, Query(ge=1, le=10_000)] = 100,
) -> list[AuditView]:
    return inspector.audit(bucket=bucket, key=key, count=limit)


def passes_of(service: OfRequest) -> PassInspector:
    return PassInspector(service.tables, service.settings.lifecycle, service.directory.path)


_Passes = Annotated[PassInspector, Depends(passes_of)]


@router.get("/passes", summary="The newest passes, the oldest of them first")
def list_passes(passes: _Passes, limit: Annotated[int, Query(ge=1, le=500)] = 20) -> list[PassView]:
    return passes.history(limit)


@router.post("/passes", summary="Ask for a pass; it begins when no other runs", status_code=202)
def request_pass(passes: _Passes, new: NewPass) -> PassRequestView:
    return passes.submit(new.bucket, dry_run=new.dry_run, engine=new.engine)


@router.get("/passes/current", summary="The pass that runs, those that wait, and the last one")
def current_pass(passes: _Passes) -> CurrentPassView:
    return passes.current()


@router.get("/passes/{pass_id}", summary="One pass, by bucket and rule")
def show_pass(
    passes: _Passes,
    pass_id: str,
    entries: Annotated[int, Query(ge=0, le=1000, description="How many entries of its plan to show.")] = 0,
) -> PassDetailView:
    return passes.show(pass_id, entries=entries)
