"""`Store` at an S3 endpoint over HTTP: one connection per thread, kept open, requests signed with one key."""

from __future__ import annotations

import base64
import http.client
import ssl
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from email.utils import formatdate
from hashlib import md5, sha256
from typing import NamedTuple
from urllib.parse import quote, urlsplit

from tidegate.core import sigv4, xml
from tidegate.core.errors import Conflict, InvalidInput, NotFound, Refused, TidegateError, Unavailable
from tidegate.core.events import Pairs
from tidegate.core.identities import moment
from tidegate.core.lifecycle.subjects import Versioning
from tidegate.core.listings import UploadPage, VersionPage, parse_upload_page, parse_version_page
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import DeleteEntry, DeleteResult
from tidegate.ports import Look

# A pool that sleeps must be woken first.
_TIMEOUT_SECONDS = 150.0
_LARGEST_ANSWER = 16 * 1024 * 1024
_NO_LOCKS = "ObjectLockConfigurationNotFoundError"


class _Answer(NamedTuple):
    status: int
    headers: http.client.HTTPMessage
    body: bytes


class S3Store:
    def __init__(self, url: str, access_key: str, secret: str, *, region: str = "us-east-1") -> None:
        where = urlsplit(url)
        if where.scheme not in ("http", "https") or not where.netloc:
            raise InvalidInput(f"{url!r} is not the address of an S3 endpoint")
        self._host = where.netloc
        self._is_secure = where.scheme == "https"
        self._credentials = (access_key, secret)
        self._region = region
        self._local = threading.local()
        self._lock = threading.Lock()
        self._connections: list[http.client.HTTPConnection] = []

    # --- calls -----------------------------------------------------------------------------------

    def versioning(self, bucket: str) -> Versioning:
        reply = xml.parse_reply(self._ask("GET", bucket, query={"versioning": ""}).body)
        try:
            return Versioning(reply.fields.get("Status") or Versioning.OFF)
        except ValueError as error:
            raise Unavailable(f"bucket {bucket}: {error}") from None

    def locks_objects(self, bucket: str) -> bool:
        answer = self._send("GET", bucket, query={"object-lock": ""})
        if answer.status == 404 and _error_of(answer)[0] == _NO_LOCKS:
            return False
        _check(answer, f"bucket {bucket}")
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
        return parse_version_page(self._ask("GET", bucket, query=query).body)

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
        return parse_upload_page(self._ask("GET", bucket, query=query).body)

    def read(self, bucket: str, key: str, *, start: int, length: int) -> bytes:
        part = {"range": f"bytes={start}-{start + length - 1}"}
        return self._ask("GET", bucket, key, query={}, headers=part).body

    def tags(self, bucket: str, key: str, version_id: str = "") -> Pairs:
        answer = self._ask("GET", bucket, key, query={"tagging": "", "versionId": version_id})
        try:
            return xml.parse_tagging(answer.body)
        except S3Error as error:
            raise Unavailable(f"the tags of {bucket}/{key} cannot be read: {error}") from None

    def look(self, bucket: str, key: str, version_id: str = "") -> Look | None:
        answer = self._send("HEAD", bucket, key, query={"versionId": version_id})
        if answer.status in (404, 405):  # 405: it is a delete marker
            return None
        _check(answer, f"{bucket}/{key}")
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
        self._ask("DELETE", bucket, entry.key, query={"versionId": entry.version_id}, headers=given)

    def delete_many(self, bucket: str, entries: Sequence[DeleteEntry]) -> DeleteResult:
        if len(entries) > xml.MOST_DELETES:
            raise InvalidInput(f"one request deletes at most {xml.MOST_DELETES} objects, not {len(entries)}")
        body = xml.delete_request_xml(entries, with_identities=True)
        digest = base64.b64encode(md5(body, usedforsecurity=False).digest()).decode()
        headers = {"content-type": "application/xml", "content-md5": digest}
        return xml.parse_delete_result(self._ask("POST", bucket, query={"delete": ""}, headers=headers, body=body).body)

    def abort_upload(self, bucket: str, key: str, upload_id: str) -> None:
        self._ask("DELETE", bucket, key, query={"uploadId": upload_id})

    def close(self) -> None:
        """Also the connections of other threads, which must have come to rest."""
        with self._lock:
            connections, self._connections = self._connections, []
        for connection in connections:
            connection.close()

    # --- requests --------------------------------------------------------------------------------

    def _ask(
        self,
        method: str,
        bucket: str,
        key: str = "",
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> _Answer:
        answer = self._send(method, bucket, key, query=query, headers=headers, body=body)
        _check(answer, f"{bucket}/{key}" if key else f"bucket {bucket}")
        return answer

    def _send(
        self,
        method: str,
        bucket: str,
        key: str = "",
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
    ) -> _Answer:
        path = f"/{bucket}/{quote(key, safe='/-_.~')}" if key else f"/{bucket}"
        target = "&".join(
            f"{name}={quote(value, safe='')}" for name, value in query.items() if value or name in _SUBRESOURCES
        )
        signed = self._signed(method, path, target, headers or {}, body)
        connection = self._connection()
        try:
            connection.request(method, f"{path}?{target}" if target else path, body=body or None, headers=signed)
            response = connection.getresponse()
            content = response.read(_LARGEST_ANSWER + 1)
        except (OSError, http.client.HTTPException, ValueError) as error:
            self._drop(connection)
            raise Unavailable(f"the S3 endpoint {self._host} does not answer: {error!r}") from None
        if len(content) > _LARGEST_ANSWER:
            self._drop(connection)
            raise Unavailable(f"the S3 endpoint {self._host} answered with more than {_LARGEST_ANSWER} bytes")
        return _Answer(response.status, response.headers, content)

    def _signed(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> dict[str, str]:
        plain = {name.encode(): value.encode() for name, value in {"host": self._host, **headers}.items()}
        added = sigv4.sign(
            method.encode(),
            path.encode(),
            query.encode(),
            plain,
            access_key=self._credentials[0],
            secret=self._credentials[1],
            region=self._region,
            payload=sha256(body).hexdigest(),
            now=time.time(),
        )
        return {name.decode(): value.decode() for name, value in {**plain, **added}.items()}

    def _connection(self) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is not None and not _is_stale(connection):
            return connection
        if connection is not None:
            self._drop(connection)
        if self._is_secure:
            # The endpoint is our own, on this machine: its certificate names the public host.
            context = ssl._create_unverified_context()
            connection = http.client.HTTPSConnection(self._host, timeout=_TIMEOUT_SECONDS, context=context)
        else:
            connection = http.client.HTTPConnection(self._host, timeout=_TIMEOUT_SECONDS)
        with self._lock:
            self._connections.append(connection)
        self._local.connection = connection
        return connection

    def _drop(self, connection: http.client.HTTPConnection) -> None:
        self._local.connection = None
        connection.close()
        with self._lock, suppress(ValueError):
            self._connections.remove(connection)


_SUBRESOURCES = frozenset({"versions", "uploads", "versioning", "object-lock", "tagging", "delete"})


def _is_stale(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed it, or says something unasked: then it is readable before a request was sent."""
    if connection.sock is None:
        return False
    connection.sock.setblocking(False)
    try:
        connection.sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        connection.sock.settimeout(_TIMEOUT_SECONDS)
    return True


def _check(answer: _Answer, what: str) -> None:
    if answer.status < 300:
        return
    code, message = _error_of(answer)
    text = f"{what}: {code}: {message}" if message else f"{what}: {code}"
    raise _class_of(answer.status)(text)


def _class_of(status: int) -> type[TidegateError]:
    if status >= 500 or status in (408, 429):
        return Unavailable
    if status in (404, 405):
        return NotFound
    return Conflict if status in (409, 412) else Refused


def _error_of(answer: _Answer) -> tuple[str, str]:
    with suppress(Unavailable):
        reply = xml.parse_reply(answer.body)
        if reply.root == "Error":
            return reply.fields.get("Code", "") or f"status {answer.status}", reply.fields.get("Message", "")
    return f"status {answer.status}", ""


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
