"""The routes of the list of failures, `/_/crr/failed`, with the names and shapes of Backbeat's."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Literal

import msgspec
from fastapi import APIRouter, Depends, Query, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_pascal

from tidegate.core import codec
from tidegate.core.errors import InvalidInput
from tidegate.core.replication.failed_keys import FailedKey
from tidegate.replication.failure_retry import FailureRetry
from tidegate.replication.failures import Failure, FailureReader, Selection
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.lifecycle import stores_of
from tidegate.web.service import OfRequest, Service

router = APIRouter(prefix="/_/crr", dependencies=[Depends(require_token)], responses=ERRORS, tags=["replication"])


class _BackbeatShape(BaseModel):
    model_config = ConfigDict(alias_generator=to_pascal, populate_by_name=True)


class FailedVersionView(_BackbeatShape):
    """A version that has failed at a site, which is its `StorageClass`."""

    bucket: str
    key: str
    version_id: str
    storage_class: str
    size: int
    last_modified: str = Field(examples=["2018-03-30T22:22:34.384Z"])


class RetriedVersionView(FailedVersionView):
    replication_status: Literal["PENDING"] = "PENDING"


class FailedPageView(_BackbeatShape):
    """`NextMarker` is left out on the last page."""

    is_truncated: bool
    next_marker: str | None = None
    versions: list[FailedVersionView]


class VersionToRetry(_BackbeatShape):
    """Other fields, such as those of the list, are passed over."""

    bucket: str = Field(min_length=1)
    key: str = Field(min_length=1)
    version_id: str = Field(min_length=1)
    storage_class: str = Field(min_length=1)


class _Wanted(msgspec.Struct, rename="pascal"):
    bucket: str
    key: str
    version_id: str
    storage_class: str


_BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {"schema": {"type": "array", "items": VersionToRetry.model_json_schema(by_alias=True)}}
        },
    }
}


def retry_of(service: Service) -> FailureRetry:
    return FailureRetry(service.tables, service.topics, partial(stores_of, service))


async def body_of(request: Request) -> bytes:
    return await request.body()


Body = Annotated[bytes, Depends(body_of)]


@router.get(
    "/failed",
    summary="Versions that have failed: all, or those of a bucket, key, version and site",
    response_model_exclude_none=True,
)
def list_failed(
    service: OfRequest,
    marker: Annotated[str, Query(max_length=8192, description="`NextMarker` of an earlier page.")] = "",
    bucket: Annotated[str, Query(max_length=255)] = "",
    key: Annotated[str, Query(max_length=1024)] = "",
    version_id: Annotated[str, Query(alias="version-id", max_length=255)] = "",
    sitename: Annotated[str, Query(max_length=255)] = "",
) -> FailedPageView:
    selection = Selection(bucket=bucket, key=key, version_id=version_id, site=sitename)
    page = FailureReader(service.tables).page(selection, marker)
    return FailedPageView(
        is_truncated=bool(page.next_marker),
        next_marker=page.next_marker or None,
        versions=[FailedVersionView(**_told(failure)) for failure in page.failures],
    )


@router.post("/failed", summary="Retry versions that have failed; answers with those that are", openapi_extra=_BODY)
def retry_failed(service: OfRequest, body: Body) -> list[RetriedVersionView]:
    wanted = parse_wanted(body)
    retried = retry_of(service).retry(wanted, now=time.time())
    return [RetriedVersionView(**_told(failure)) for failure in retried]


def parse_wanted(body: bytes) -> list[FailedKey]:
    """Raises `InvalidInput`, which says what is wrong with the body."""
    wanted = []
    for number, each in enumerate(codec.decoded(body, list[_Wanted], "list of versions to retry")):
        failed = FailedKey(each.bucket, each.key, each.version_id, each.storage_class)
        missing = [name for name, value in zip(_NAMES, failed, strict=True) if not value]
        if missing:
            raise InvalidInput(f"{missing[0]} of the version at $[{number}] is empty")
        wanted.append(failed)
    return wanted


_NAMES = ("Bucket", "Key", "VersionId", "StorageClass")


def _told(failure: Failure) -> dict[str, str | int]:
    return {
        "bucket": failure.failed.bucket,
        "key": failure.failed.key,
        "version_id": failure.failed.version_id,
        "storage_class": failure.failed.site,
        "size": failure.record.size,
        "last_modified": shown_moment(failure.record.last_modified),
    }


def shown_moment(seconds: float) -> str:
    """As S3 writes times in documents: with milliseconds, and a Z."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
