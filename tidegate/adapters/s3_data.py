"""The calls of `Store` that move data: objects read and written piece by piece, uploads in parts.

The MD5 of what is written goes with it and is signed, so that the store checks it and nobody on the way can change it.
A digest for the signature would be one more over the same bytes.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import md5

from tidegate.adapters.s3_endpoint import S3Endpoint
from tidegate.adapters.s3_errors import check, check_document
from tidegate.adapters.s3_requests import Answer, Request
from tidegate.core import sigv4, xml
from tidegate.core.errors import Unavailable
from tidegate.core.events import Pairs
from tidegate.core.identities import plain_md5
from tidegate.core.listings import parse_part_page
from tidegate.core.object_pages import identity_of, parse_object_page
from tidegate.core.xml import CompletedPart
from tidegate.ports import ObjectStream, StoredHead, StoredObject, StoredPart, StoredVersion

_LONGEST_PAGE = 1000


class DataCalls:
    _endpoint: S3Endpoint

    # --- reading ---------------------------------------------------------------------------------

    def read(self, bucket: str, key: str, *, start: int, length: int) -> bytes:
        part = {"range": f"bytes={start}-{start + length - 1}"}
        with self._endpoint.throttle.transfer():
            content = self._endpoint.ask(Request("GET", bucket, key, headers=part)).body
            self._endpoint.throttle.moved(len(content))
            return content

    @contextmanager
    def open(
        self, bucket: str, key: str, version_id: str = "", *, if_match: str = "", start: int = 0
    ) -> Iterator[ObjectStream]:
        headers = {}
        if if_match:
            headers["if-match"] = f'"{if_match.strip(chr(34))}"'
        if start:
            headers["range"] = f"bytes={start}-"
        request = Request("GET", bucket, key, {"versionId": version_id}, headers)
        with self._endpoint.stream(request) as (answer, pieces):
            if start and answer.status != 206:
                raise Unavailable(f"{request.subject}: the store did not begin at byte {start}")
            yield ObjectStream(StoredHead(answer.headers), pieces)

    def head(self, bucket: str, key: str, version_id: str = "") -> StoredHead | None:
        answer = self._endpoint.send(Request("HEAD", bucket, key, {"versionId": version_id}))
        if answer.status in (404, 405):  # 405: it is a delete marker
            return None
        check(answer.status, answer.body, f"{bucket}/{key}")
        return StoredHead(answer.headers)

    def list_objects(
        self, bucket: str, *, prefix: str = "", start_after: str = "", limit: int = 1000
    ) -> Sequence[StoredObject]:
        """A store may give short pages before the end."""
        found: list[StoredObject] = []
        while len(found) < limit:
            query = {
                "list-type": "2",
                "encoding-type": "url",
                "max-keys": str(min(limit - len(found), _LONGEST_PAGE)),
                "prefix": prefix,
                "start-after": start_after,
            }
            page = parse_object_page(self._endpoint.ask(Request("GET", bucket, query=query)).body)
            found += [_stored(key, entry) for key, entry in page.entries.items()]
            if not page.is_truncated:
                break
            if not page.keys or page.keys[-1] == start_after:
                raise Unavailable(f"bucket {bucket}: the listing says that it goes on, and does not")
            start_after = page.keys[-1]
        return found

    # --- writing ---------------------------------------------------------------------------------

    def put(self, bucket: str, key: str, data: bytes, *, headers: Mapping[str, str] | None = None) -> str:
        request = Request("PUT", bucket, key, {}, {**(headers or {}), **_md5(data)}, data, _UNSIGNED)
        return _stored_version(self._written(request)).etag

    def put_version(
        self, bucket: str, key: str, data: bytes, *, headers: Mapping[str, str] | None = None
    ) -> StoredVersion:
        digest = md5(data, usedforsecurity=False)
        headers = {**(headers or {}), "content-md5": base64.b64encode(digest.digest()).decode()}
        answer = self._written(Request("PUT", bucket, key, {}, headers, data, _UNSIGNED))
        if plain_md5(answer.headers) not in ("", digest.hexdigest()):
            raise Unavailable(f"{bucket}/{key}: the store shows the ETag of other data than was sent")
        return _stored_version(answer)

    def put_marker(self, bucket: str, key: str, *, headers: Mapping[str, str] | None = None) -> StoredVersion:
        return _stored_version(self._endpoint.ask(Request("DELETE", bucket, key, {}, headers)))

    def put_tags(self, bucket: str, key: str, version_id: str, tags: Pairs) -> None:
        query = {"tagging": "", "versionId": version_id}
        if not tags:
            self._endpoint.ask(Request("DELETE", bucket, key, query))
            return
        body = xml.tagging_xml(tags)
        headers = {"content-type": "application/xml", **_md5(body)}
        self._endpoint.ask(Request("PUT", bucket, key, query, headers, body))

    def start_upload(self, bucket: str, key: str, *, headers: Mapping[str, str] | None = None) -> str:
        answer = self._endpoint.ask(Request("POST", bucket, key, {"uploads": ""}, headers))
        upload_id = xml.parse_reply(answer.body).fields.get("UploadId", "")
        if not upload_id:
            raise Unavailable(f"{bucket}/{key}: the store gave no id for an upload")
        return upload_id

    def put_part(self, bucket: str, key: str, upload_id: str, number: int, data: bytes) -> StoredPart:
        query = {"partNumber": str(number), "uploadId": upload_id}
        answer = self._written(Request("PUT", bucket, key, query, _md5(data), data, _UNSIGNED))
        return StoredPart(number, _stored_version(answer).etag, len(data))

    def parts(self, bucket: str, key: str, upload_id: str) -> Sequence[StoredPart]:
        found: list[StoredPart] = []
        marker = 0
        while True:
            query = {"uploadId": upload_id, "part-number-marker": str(marker) if marker else ""}
            page = parse_part_page(self._endpoint.ask(Request("GET", bucket, key, query)).body)
            found += [StoredPart(part.number, part.etag, part.size) for part in page.parts]
            if not page.is_truncated:
                return found
            if page.next_number <= marker:
                raise Unavailable(f"{bucket}/{key}: the listing of parts says that it goes on, and does not")
            marker = page.next_number

    def complete_upload(self, bucket: str, key: str, upload_id: str, parts: Sequence[StoredPart]) -> str:
        return self.complete_version(bucket, key, upload_id, parts).etag

    def complete_version(self, bucket: str, key: str, upload_id: str, parts: Sequence[StoredPart]) -> StoredVersion:
        """A store may begin its reply before it knows the outcome, and tell an error in one of status 200."""
        body = xml.completed_parts_xml(CompletedPart(part.number, {"ETag": f'"{part.etag}"'}) for part in parts)
        headers = {"content-type": "application/xml"}
        answer = self._endpoint.ask(Request("POST", bucket, key, {"uploadId": upload_id}, headers, body))
        etag = check_document(answer.body, f"{bucket}/{key}").fields.get("ETag", "").strip('"')
        return StoredVersion(answer.headers.get(_VERSION_ID, ""), etag)

    def _written(self, request: Request) -> Answer:
        with self._endpoint.throttle.transfer():
            return self._endpoint.ask(request)


_UNSIGNED = sigv4.UNSIGNED_PAYLOAD
_VERSION_ID = "x-amz-version-id"


def _stored_version(answer: Answer) -> StoredVersion:
    return StoredVersion(answer.headers.get(_VERSION_ID, ""), answer.headers.get("etag", "").strip('"'))


def _md5(data: bytes) -> dict[str, str]:
    return {"content-md5": base64.b64encode(md5(data, usedforsecurity=False).digest()).decode()}


def _stored(key: str, entry: bytes) -> StoredObject:
    identity = identity_of(entry)
    if identity.modified is None:
        raise Unavailable(f"the listing shows no time for {key!r}")
    return StoredObject(key, max(identity.size, 0), identity.etag, identity.modified)
