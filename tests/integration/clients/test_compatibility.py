"""Every operation that botocore knows is asked of a running gateway, which answers as docs/s3-compatibility.md says."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import botocore
import pytest
from botocore.exceptions import ClientError
from botocore.model import Shape
from compatibility_page import BEYOND_BOTOCORE, MODEL, OLDER_NAMES, Row, rows
from running_service import RunningService

from tidegate.core.operations import Scope, read_query
from tidegate.gateway.operations.table import TABLE

BUCKET = "compatibility"
# Values by the names of parameters, wherever one of that name belongs. All others come from the model.
GIVEN: dict[str, Any] = {
    "Bucket": BUCKET,
    "Key": "key",
    "CopySource": f"{BUCKET}/kept",
    "ACL": "private",
    "Payer": "BucketOwner",
    "ObjectOwnership": "BucketOwnerEnforced",
}
ROWS = [row for row in rows() if row.name not in BEYOND_BOTOCORE]


@pytest.fixture(scope="module")
def client(service: RunningService) -> Any:
    """Its bucket is never empty, so that it cannot be deleted."""
    made = service.s3(service.create_pool("compatibility"), retries=1, inject_host_prefix=False)
    made.create_bucket(Bucket=BUCKET)
    made.put_object(Bucket=BUCKET, Key="kept", Body=b"kept")
    return made


def value(shape: Shape, name: str) -> Any:
    """The least that the model accepts."""
    if name in GIVEN:
        return GIVEN[name]
    if shape.type_name == "structure":
        return fewest(shape)
    if shape.type_name == "list":
        return [value(shape.member, "")]
    if shape.type_name == "string":
        return shape.enum[0] if shape.enum else "x" * shape.metadata.get("min", 1)
    return {"integer": 1, "long": 1, "boolean": True, "blob": b"x", "timestamp": "2040-01-01T00:00:00Z"}[
        shape.type_name
    ]


def fewest(shape: Shape) -> dict[str, Any]:
    wanted = [*shape.required_members, *(name for name in shape.members if name in GIVEN)]
    if getattr(shape, "is_tagged_union", False):
        wanted = list(shape.members)[:1]
    return {name: value(shape.members[name], name) for name in wanted}


def asked(client: Any, name: str) -> tuple[int, str, Any]:
    """Status and error code of the answer, and the request."""
    requests: list[Any] = []

    def note(request: Any, **_: Any) -> None:
        requests.append(request)

    client.meta.events.register("before-send.s3", note)
    try:
        shape = MODEL.operation_model(name).input_shape
        answer = getattr(client, botocore.xform_name(name))(**(fewest(shape) if shape else {}))
    except ClientError as error:
        answer = error.response
    finally:
        client.meta.events.unregister("before-send.s3", note)
    return answer["ResponseMetadata"]["HTTPStatusCode"], answer.get("Error", {}).get("Code", ""), requests[0]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_the_gateway_answers_as_the_page_says(client: Any, row: Row) -> None:
    status, code, request = asked(client, row.name)
    if row.standing != "supported":
        assert (status, code) == (row.status, row.code)
    else:
        assert status < 500 and code not in ("NotImplemented", "MethodNotAllowed", "AccessDenied")
    if row.standing != "refused":
        assert operation_of(request) == OLDER_NAMES.get(row.name, row.name)


def operation_of(request: Any) -> str:
    target = urlsplit(request.url)
    bucket, _, key = target.path[1:].partition("/")
    scope: Scope = "object" if key else "bucket" if bucket else "service"
    headers = {name.lower().encode(): value for name, value in request.headers.items()}
    return TABLE.find(request.method, scope, read_query(target.query.encode()), headers)[0].name
