"""The part of the HTTP API about locations."""

from __future__ import annotations

import time

from fastapi import APIRouter, Depends
from pydantic import BaseModel, ConfigDict, Field, SecretStr

from tidegate.movement.deletion_queries import DeletionDesk
from tidegate.movement.location_check import CheckResult
from tidegate.movement.location_views import LocationView, view_location
from tidegate.web.access import require_token
from tidegate.web.api import ERRORS
from tidegate.web.service import OfRequest

router = APIRouter(
    prefix="/api/v1/locations", dependencies=[Depends(require_token)], responses=ERRORS, tags=["locations"]
)


class NewLocation(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field(examples=["cold"], max_length=255)
    endpoint: str = Field(examples=["https://s3.example.org"], max_length=1024)
    bucket: str = Field(max_length=255)
    region: str = Field("us-east-1", min_length=1, max_length=255)
    prefix: str = Field("", max_length=1024)
    access_key: str = Field(min_length=1, max_length=255)
    secret_key: SecretStr = Field(min_length=1, max_length=4096)
    storage_classes: list[str] = Field([], max_length=100, description="Empty: one class of the location's name.")
    ca_file: str = Field("", max_length=4096, description="A file on the machine of the service.")
    concurrency: int = Field(8, ge=1, le=256, description="Objects and parts on their way at a time, of one process.")
    bytes_per_second: int = Field(0, ge=0, description="Of one process; 0: any.")


@router.get("", summary="All locations, without their secrets")
def list_locations(service: OfRequest) -> list[LocationView]:
    return [view_location(service.locations, location) for location in service.locations.all()]


@router.post("", summary="Create a location", status_code=201)
def create_location(service: OfRequest, new: NewLocation) -> LocationView:
    made = service.locations.create(
        new.name,
        endpoint=new.endpoint,
        bucket=new.bucket,
        access_key=new.access_key,
        secret=new.secret_key.get_secret_value(),
        now=time.time(),
        region=new.region,
        prefix=new.prefix,
        storage_classes=new.storage_classes,
        ca_file=new.ca_file,
        concurrency=new.concurrency,
        bytes_per_second=new.bytes_per_second,
    )
    return view_location(service.locations, made)


@router.get("/{name}", summary="One location, without its secret")
def show_location(service: OfRequest, name: str) -> LocationView:
    return view_location(service.locations, service.locations.get(name))


@router.post("/{name}/check", summary="Write, read, look at and delete a small object there")
def check_location(service: OfRequest, name: str) -> CheckResult:
    return service.locations.check(name)


@router.delete("/{name}", summary="Remove a location to which no object refers", status_code=204)
def remove_location(service: OfRequest, name: str) -> None:
    desk = DeletionDesk(service.tables, service.topics, service.settings)
    service.locations.remove(name, desk.in_flight)
