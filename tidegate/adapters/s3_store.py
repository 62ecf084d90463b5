"""`Store` at an S3 endpoint: listings, looks and deletes.

What moves data is in `s3_data`, what only a gateway understands in `s3_gateway`.
"""

from __future__ import annotations

import base64
import ssl
from collections.abc import Sequence
from datetime import datetime
from email.utils import formatdate
from hashlib import md5

from tidegate.adapters.s3_data import DataCalls
from tidegate.adapters.s3_endpoint import POOL_TIMEOUT_SECONDS, S3Endpoint
from tidegate.adapters.s3_errors import check, error_of
from tidegate.adapters.s3_gateway import GatewayCalls
from tidegate.adapters.s3_requests import Request, Throttle
from tidegate.core import xml
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.core.events import Pairs
from tidegate.core.identities import moment
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import UploadPage, VersionPage, parse_upload_page, parse_version_page
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import DeleteEntry, DeleteResult
from tidegate.ports import Look

_NO_LOCKS = "ObjectLockConfigurationNotFoundError"


class S3Store(DataCalls, GatewayCalls):
    """`tls` says how certificates are checked. Without it they are not: that of an endpoint of our own, on this
    machine, names the public host."""

    def __init__(
        self,
        url: str,
        access_key: str,
        secret: str,
        *,
        region: str = "us-east-1",
        tls: ssl.SSLContext | None = None,
        timeout: float = POOL_TIMEOUT_SECONDS,
        throttle: Throttle | None = None,
    ) -> None:
        self._endpoint = S3Endpoint(url, access_key, secret, region=region, tls=tls, timeout=timeout, throttle=throttle)

    def versioning(self, bucket: str) -> Versioning:
        reply = xml.parse_reply(self._endpoint.ask(Request("GET", bucket, query={"versioning": ""})).body)
        try:
            return Versioning(reply.fields.get("Status") or Versioning.OFF)
        except ValueError as error:
            raise Unavailable(f"bucket {bucket}: {error}") from None

    def locks_objects(self, bucket: str) -> bool:
        answer = self._endpoint.send(Request("GET", bucket, query={"object-lock": ""}))
        if answer.status == 404 and error_of(answer.status, answer.body)[0] == _NO_LOCKS:
            return False
        check(answer.status, answer.body, f"bucket {bucket}")
        return xml.parse_reply(answer.body).fields.get("ObjectLockEnabled") == "Enabled"

    def list_versions(
        self,
        bucket: str,
        *,
        prefix: str = "",
        delimiter: str = "",
        key_marker: str = "",
        version_id_marker: str = "",
        limit: int = 1000,
    ) -> VersionPage:
        query = {
            "versions": "",
            "encoding-type": "url",
            "max-keys": str(limit),
            "prefix": prefix,
            "delimiter": delimiter,
            "key-marker": key_marker,
            "version-id-marker": version_id_marker,
        }
        return parse_version_page(self._endpoint.ask(Request("GET", bucket, query=query)).body)

    def list_uploads(
        self, bucket: str, *, prefix: str = "", key_marker: str = "", upload_id_marker: str = "", limit: int = 1000
    ) -> UploadPage:
        query = {
            "uploads": "",
            "encoding-type": "url",
            "max-uploads": str(limit),
            "prefix": prefix,
            "key-marker": key_marker,
            "upload-id-marker": upload_id_marker,
        }
        return parse_upload_page(self._endpoint.ask(Request("GET", bucket, query=query)).body)

    def tags(self, bucket: str, key: str, version_id: str = "") -> Pairs:
        answer = self._endpoint.ask(Request("GET", bucket, key, {"tagging": "", "versionId": version_id}))
        try:
            return xml.parse_tagging(answer.body)
        except S3Error as error:
            raise Unavailable(f"the tags of {bucket}/{key} cannot be read: {error}") from None

    def look(self, bucket: str, key: str, version_id: str = "") -> Look | None:
        answer = self._endpoint.send(Request("HEAD", bucket, key, {"versionId": version_id}))
        if answer.status in (404, 405):  # 405: it is a delete marker
            return None
        check(answer.status, answer.body, f"{bucket}/{key}")
        headers = answer.headers
        until = headers.get("x-amz-object-lock-retain-until-date", "")
        return Look(
            etag=headers.get("etag", "").strip('"'),
            last_modified=headers.get("last-modified", ""),
            size=int(headers.get("content-length") or 0),
            retained_until_ns=_nanoseconds(until) if until else None,
            legal_hold=headers.get("x-amz-object-lock-legal-hold", "").upper() == "ON",
        )

    def delete(self, bucket: str, entry: DeleteEntry, *, only_marker: bool = False) -> None:
        headers = {
            "if-match": entry.etag,
            "x-amz-if-match-last-modified-time": entry.last_modified,
            "x-amz-if-match-size": None if entry.size is None else str(entry.size),
            "if-unmodified-since": None if entry.unmodified_since is None else _http_date(entry.unmodified_since),
            "x-amz-if-match-delete-marker": "true" if only_marker else None,
            "x-amz-if-noncurrent": "true" if entry.noncurrent else None,
        }
        given = {name: value for name, value in headers.items() if value is not None}
        self._endpoint.ask(Request("DELETE", bucket, entry.key, {"versionId": entry.version_id}, given))

    def delete_many(self, bucket: str, entries: Sequence[DeleteEntry]) -> DeleteResult:
        if len(entries) > xml.MOST_DELETES:
            raise InvalidInput(f"one request deletes at most {xml.MOST_DELETES} objects, not {len(entries)}")
        body = xml.delete_request_xml(entries, with_identities=True)
        digest = base64.b64encode(md5(body, usedforsecurity=False).digest()).decode()
        headers = {"content-type": "application/xml", "content-md5": digest}
        request = Request("POST", bucket, query={"delete": ""}, headers=headers, body=body)
        return xml.parse_delete_result(self._endpoint.ask(request).body)

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        self._endpoint.ask(Request("DELETE", bucket, key, {"uploadId": upload_id}))

    def close(self) -> None:
        """Calls that are under way end as usual."""
        self._endpoint.close()


def _http_date(text: str) -> str:
    found = moment(text)
    if found is None:
        raise InvalidInput(f"{text!r} is not a time")
    return formatdate(int(found), usegmt=True)


def _nanoseconds(text: str) -> int:
    try:
        return round(datetime.fromisoformat(text).timestamp() * 1_000_000) * 1000
    except ValueError:
        raise Unavailable(f"the store shows a time that is none: {text!r}") from None
