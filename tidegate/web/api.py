"""The HTTP API: the same operations as the command line, under `/api/v1`."""

from __future__ import annotations

import json
import time
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query
from pydantic import BaseModel, ConfigDict, Field

from tidegate import administration
from tidegate.administration import (
    BucketView,
    GatewayView,
    KeyCreated,
    KeyView,
    PoolCreated,
    PoolView,
    UserView,
    seconds_of,
    view_bucket,
    view_key,
    view_pool,
    view_user,
)
from tidegate.core.events import Event
from tidegate.core.records import BucketPolicy, KeyPolicy
from tidegate.metalog_reader import parse_positions, show_positions
from tidegate.metalog_statistics import MetalogStatisticsView, metalog_statistics
from tidegate.pools import waking
from tidegate.web.access import require_token
from tidegate.web.errors import ErrorView
from tidegate.web.service import OfRequest, StatusView

ERRORS: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorView, "description": "The input breaks a rule."},
    401: {"model": ErrorView, "description": "No token."},
    403: {"model": ErrorView, "description": "A wrong token."},
    404: {"model": ErrorView, "description": "There is no such thing."},
    409: {"model": ErrorView, "description": "The name is taken, or the state forbids it."},
    422: {"model": ErrorView, "description": "The request is not of the described form."},
    503: {"model": ErrorView, "description": "A server that is needed does not answer; try later."},
}

router = APIRouter(prefix="/api/v1", dependencies=[Depends(require_token)], responses=ERRORS)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid")


class NewPool(_Body):
    name: str = Field(examples=["physics"], max_length=255)
    owner: str = Field("", max_length=255, description="System user the backend runs as; empty: the service's user.")
    group: str = Field("", max_length=255)
    directory: str = Field("", max_length=4096, description="Empty: `pools/NAME` in the data directory.")
    backend: str = Field("", max_length=255, description="Empty: the setting `pools.backend`.")
    direct_hostname: str = Field("", max_length=255)
    expires_at: datetime | None = None


class PoolChange(_Body):
    """Only what is given is changed; `expires_at: null` means never."""

    online: bool | None = None
    expires_at: datetime | None = None


class NewKey(_Body):
    policy: KeyPolicy = KeyPolicy.READWRITE
    expires_at: datetime | None = None


class NewBucket(_Body):
    name: str = Field(examples=["raw-data"], max_length=255)
    pool: str = Field(examples=["physics"], max_length=255)
    policy: BucketPolicy = BucketPolicy.NONE


class NewBucketPolicy(_Body):
    policy: BucketPolicy


class UserChange(_Body):
    permitted: bool


class Started(BaseModel):
    pool: str
    endpoint: str


class MetalogPage(BaseModel):
    """Events, the oldest first. Ask again with `after` = `next` for what follows."""

    events: list[dict[str, Any]]
    next: str


@router.get("/status", tags=["service"], summary="Version, addresses, pools by state, gateways")
def status(service: OfRequest) -> StatusView:
    return service.status()


@router.get("/gateways", tags=["service"], summary="Gateway processes that are registered now")
def gateways(service: OfRequest) -> list[GatewayView]:
    return administration.list_gateways(service.tables)


@router.get("/pools", tags=["pools"], summary="All pools")
def list_pools(service: OfRequest) -> list[PoolView]:
    return [view_pool(service.registry, pool) for pool in service.registry.pools()]


@router.post("/pools", tags=["pools"], summary="Create a pool and its first key", status_code=201)
def create_pool(service: OfRequest, new: NewPool) -> PoolCreated:
    return administration.create_pool(
        service.registry,
        new.name,
        owner=new.owner,
        group=new.group,
        directory=new.directory,
        backend=new.backend,
        direct_hostname=new.direct_hostname,
        expires_at=seconds_of(new.expires_at),
    )


@router.get("/pools/{name}", tags=["pools"], summary="One pool with its state and processes")
def show_pool(service: OfRequest, name: str) -> PoolView:
    return view_pool(service.registry, service.registry.pool(name))


@router.patch("/pools/{name}", tags=["pools"], summary="Take a pool on- or offline, change its expiry")
def change_pool(service: OfRequest, name: str, change: PoolChange) -> PoolView:
    changes: dict[str, Any] = {}
    if change.online is not None:
        changes["online"] = change.online
    if "expires_at" in change.model_fields_set:
        changes["expires_at"] = seconds_of(change.expires_at)
    return view_pool(service.registry, service.registry.update_pool(name, **changes))


@router.delete("/pools/{name}", tags=["pools"], summary="Delete a pool; its contents stay", status_code=204)
def delete_pool(service: OfRequest, name: str) -> None:
    service.registry.delete_pool(name)


@router.post("/pools/{name}/start", tags=["pools"], summary="Start the backend now")
def start_pool(service: OfRequest, name: str) -> Started:
    service.registry.pool(name)
    return Started(pool=name, endpoint=waking.start_pool(service.directory.path, name, service.settings))


@router.post(
    "/pools/{name}/stop", tags=["pools"], summary="Stop the backend; the next request starts it", status_code=204
)
def stop_pool(service: OfRequest, name: str) -> None:
    service.registry.stop_pool(name)


@router.post("/pools/{name}/reset", tags=["pools"], summary="Let an INOPERABLE pool be tried again")
def reset_pool(service: OfRequest, name: str) -> PoolView:
    service.registry.reset_pool(name, now=time.time())
    return view_pool(service.registry, service.registry.pool(name))


@router.get("/pools/{name}/keys", tags=["keys"], summary="A pool's keys, without secrets")
def list_keys(service: OfRequest, name: str) -> list[KeyView]:
    return [view_key(key) for key in service.registry.keys(name)]


@router.post("/pools/{name}/keys", tags=["keys"], summary="Create a key", status_code=201)
def create_key(service: OfRequest, name: str, new: NewKey) -> KeyCreated:
    return administration.create_key(service.registry, name, policy=new.policy, expires_at=seconds_of(new.expires_at))


@router.delete("/keys/{access_key}", tags=["keys"], summary="Delete a key", status_code=204)
def delete_key(service: OfRequest, access_key: str) -> None:
    administration.delete_key(service.registry, access_key)


@router.get("/buckets", tags=["buckets"], summary="Buckets, of one pool or of all")
def list_buckets(service: OfRequest, pool: Annotated[str, Query(max_length=255)] = "") -> list[BucketView]:
    return administration.list_buckets(service.registry, service.tables, pool)


@router.post("/buckets", tags=["buckets"], summary="Create a bucket", status_code=201)
def create_bucket(service: OfRequest, new: NewBucket) -> BucketView:
    return administration.create_bucket(service.registry, new.name, new.pool, policy=new.policy)


@router.get("/buckets/{name}", tags=["buckets"], summary="One bucket")
def show_bucket(service: OfRequest, name: str) -> BucketView:
    return view_bucket(service.registry.bucket(name))


@router.put("/buckets/{name}/policy", tags=["buckets"], summary="Set what may be done without a key")
def set_bucket_policy(service: OfRequest, name: str, new: NewBucketPolicy) -> BucketView:
    return administration.set_bucket_policy(service.registry, name, new.policy)


@router.delete(
    "/buckets/{name}", tags=["buckets"], summary="Make a bucket unreachable; its contents stay", status_code=204
)
def delete_bucket(service: OfRequest, name: str) -> None:
    administration.delete_bucket(service.registry, name)


@router.get("/users", tags=["users"], summary="Owners of pools")
def list_users(service: OfRequest) -> list[UserView]:
    return [view_user(user) for user in service.registry.users()]


@router.put("/users/{name}", tags=["users"], summary="Permit or deny a user")
def change_user(service: OfRequest, name: str, change: UserChange) -> UserView:
    return view_user(service.registry.set_user_permitted(name, change.permitted, time.time()))


@router.get("/metalog", tags=["metadata log"], summary="Events: a page, or the newest")
def read_metalog(
    service: OfRequest,
    after: Annotated[str, Query(max_length=8192, description="`next` of an earlier page; empty: the oldest.")] = "",
    limit: Annotated[int, Query(ge=1, le=1000, description="Events looked at, before the filters.")] = 100,
    bucket: Annotated[str, Query(max_length=255)] = "",
    pool: Annotated[str, Query(max_length=255)] = "",
    newest: Annotated[bool, Query(description="The newest `limit` events instead of a page.")] = False,
) -> MetalogPage:
    def wanted(event: Event) -> bool:
        return (not bucket or event.bucket == bucket) and (not pool or event.pool == pool)

    reader = service.metalog()
    if newest:
        reached = reader.end()
        events = reader.tail(limit, wanted, reached)
    else:
        events, reached = reader.page(parse_positions(after) if after else reader.start(), limit, wanted)
    return MetalogPage(events=[json.loads(event.to_bytes()) for event in events], next=show_positions(reached))


@router.get("/metalog/statistics", tags=["metadata log"], summary="Events by operation, bucket and day; sizes")
def show_metalog_statistics(
    service: OfRequest, top: Annotated[int, Query(ge=1, le=1000, description="Buckets to show.")] = 10
) -> MetalogStatisticsView:
    topic = service.settings.metalog.topic
    return metalog_statistics(service.topics, topic, service.directory.path, most_buckets=top)
