"""The calls of `Store` that only a gateway of Tidegate answers, and only to a pool's service key: where data lies."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tidegate.adapters.s3_endpoint import S3Endpoint
from tidegate.adapters.s3_errors import check
from tidegate.adapters.s3_requests import Request
from tidegate.core import sigv4
from tidegate.core.errors import InvalidInput, NotFound, Unavailable
from tidegate.core.placements import Placement


class GatewayCalls:
    _endpoint: S3Endpoint

    def place(self, bucket: str, key: str, version_id: str, request: Mapping[str, object]) -> dict[str, Any]:
        query = {"tidegate-placement": "", "versionId": version_id}
        headers = {"content-type": "application/json"}
        asked = Request("PUT", bucket, key, query, headers, json.dumps(dict(request)).encode())
        return self._outcome(asked)

    def move_back(
        self, bucket: str, key: str, version_id: str, data_key: str, size: int, chunks: Iterable[bytes]
    ) -> None:
        query = {"tidegate-data": "", "versionId": version_id}
        headers = {"x-amz-tidegate-data-key": data_key, "content-length": str(size)}
        body = _of_size(chunks, size, f"{bucket}/{key}")
        self._endpoint.ask(Request("PUT", bucket, key, query, headers, body, sigv4.UNSIGNED_PAYLOAD))

    def delete_original(self, bucket: str, key: str, version_id: str) -> bool:
        request = Request("DELETE", bucket, key, {"tidegate-original": "", "versionId": version_id})
        answer = self._endpoint.send(request)
        if answer.status == 409:
            return False
        check(answer.status, answer.body, request.subject)
        return True

    def describe(self, bucket: str, key: str, version_id: str = "") -> Placement | None:
        request = Request("GET", bucket, key, {"tidegate-placement": "", "versionId": version_id})
        try:
            return Placement.from_json(self._endpoint.ask(request).body)
        except NotFound:
            return None
        except InvalidInput:
            raise Unavailable(f"{request.subject}: the gateway did not describe the version") from None

    def undelete(self, bucket: str, key: str, version_id: str, record_id: str, *, dry_run: bool = False) -> str:
        query = {"tidegate-trash": "", "versionId": version_id}
        body = json.dumps({"id": record_id, "dry_run": dry_run}).encode()
        found = self._outcome(Request("PUT", bucket, key, query, {"content-type": "application/json"}, body))
        return str(found["outcome"])

    def _outcome(self, request: Request) -> dict[str, Any]:
        answer = self._endpoint.ask(request)
        try:
            found = json.loads(answer.body)
        except ValueError:
            found = None
        if not isinstance(found, dict) or "outcome" not in found:
            raise Unavailable(f"{request.subject}: the gateway did not say what became of it")
        return found


def _of_size(chunks: Iterable[bytes], size: int, subject: str) -> Iterator[bytes]:
    """The chunks; if they are not so many bytes, nothing that could be taken for the whole is sent."""
    left = size
    for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise Unavailable(f"{subject}: there is more data than the {size} bytes that were announced")
        yield chunk
    if left:
        raise Unavailable(f"{subject}: the data ended {left} bytes before its {size}")
