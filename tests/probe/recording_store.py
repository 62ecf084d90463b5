"""A pool's store that keeps every request it gets and answers as a store would, so that the flow goes on.

Whatever it gives to a reader bears a mark that says which pool, operation, bucket, key and version were read. A mark
in a client's reply is proof of what the client was shown.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from dataclasses import dataclass
from typing import NamedTuple
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from backend_reading import Headers, Meaning, Reading, header, read

MARK = re.compile(rb"mark-[0-9a-f]{32}-end")
_MODIFIED = b"Tue, 17 Mar 2026 10:00:00 GMT"
_NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'
_LISTINGS = ("ListObjects", "ListObjectsV2", "ListObjectVersions")
_ENOUGH = 64 * 1024 * 1024  # no request of the probe is that long


class Malformed(Exception):
    """The gateway has sent what no server takes for HTTP/1.1."""


class Part(NamedTuple):
    key: str
    version_id: str


@dataclass(slots=True)
class Arrival:
    """A request as it came. `deleted` is what the document of a multiple delete names."""

    pool: str
    method: bytes
    target: bytes
    headers: Headers
    body: bytes
    reading: Reading
    deleted: tuple[Part, ...] = ()
    status: int = 0

    def raw(self) -> bytes:
        lines = [b"%s %s HTTP/1.1" % (self.method, self.target), *(b"%s: %s" % pair for pair in self.headers)]
        return b"\r\n".join(lines) + b"\r\n\r\n" + self.body[:400]


def mark(pool: str, meaning: Meaning) -> bytes:
    # The keys of a bucket are the same data, whichever listing tells them: the gateway chooses among them.
    operation = "Listing" if meaning.operation in _LISTINGS else meaning.operation
    text = "\0".join((pool, operation, meaning.bucket, meaning.key, meaning.version_id))
    digest = hashlib.md5(text.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
    return b"mark-" + digest.encode() + b"-end"


class RecordingStore:
    """`spare` are the buckets that can be deleted. `domain` makes it read virtual hosts, as a store that was told
    its domain does."""

    def __init__(self, pool: str, arrivals: list[Arrival], *, domain: str, spare: frozenset[str]) -> None:
        self.pool = pool
        self.arrivals = arrivals
        self.domain = domain
        self.spare = spare
        self.address = ""
        self._server: asyncio.Server | None = None
        self._uploads = 0

    async def start(self) -> None:
        self._server = await asyncio.get_running_loop().create_server(lambda: _Connection(self), "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    def answer(self, method: bytes, target: bytes, headers: Headers, body: bytes) -> bytes:
        reading = read(method, target, headers, domain=self.domain)
        arrival = Arrival(self.pool, method, target, headers, body, reading)
        self.arrivals.append(arrival)
        if reading.meaning is None:
            return _reply(arrival, 400, b"<Error><Code>InvalidRequest</Code></Error>")
        if reading.meaning.operation == "DeleteObjects":
            return self._deleted(arrival)
        return self._answer(arrival, reading.meaning)

    def malformed(self, raw: bytes, why: str) -> None:
        fault = Reading(None, "", [f"malformed: {why}"])
        self.arrivals.append(Arrival(self.pool, b"-", b"-", [], raw[:2000], fault))

    def _answer(self, arrival: Arrival, meaning: Meaning) -> bytes:
        name = meaning.operation
        shown = mark(self.pool, meaning)
        if name in ("GetObject", "HeadObject"):
            return _reply(arrival, 200, shown, etag=shown, kind=b"text/plain")
        if meaning.effect == "read":
            return _reply(arrival, 200, _document(name, meaning, shown.decode()).encode("utf-8", "replace"))
        if name == "DeleteBucket":
            return _reply(arrival, 204 if meaning.bucket in self.spare else 409)
        if name.startswith("Delete") or name == "AbortMultipartUpload":
            return _reply(arrival, 204)
        if name == "CreateMultipartUpload":
            self._uploads += 1
            result = f"<UploadId>upload-{self._uploads}</UploadId>"
            return _reply(arrival, 200, _wrapped("InitiateMultipartUploadResult", result))
        etag = hashlib.md5(arrival.body, usedforsecurity=False).hexdigest()
        for prefix in ("CopyObject", "UploadPartCopy", "CompleteMultipartUpload"):
            if name == prefix:
                root = {"UploadPartCopy": "CopyPartResult"}.get(name, f"{name}Result")
                return _reply(arrival, 200, _wrapped(root, f"<ETag>&quot;{etag}&quot;</ETag>"))
        return _reply(arrival, 200, etag=etag.encode())

    def _deleted(self, arrival: Arrival) -> bytes:
        try:
            arrival.deleted = named_in(arrival.body)
        except ElementTree.ParseError:
            arrival.reading.faults.append("document: not XML")
            return _reply(arrival, 400, b"<Error><Code>MalformedXML</Code></Error>")
        entries = "".join(
            f"<Deleted><Key>{_text(key)}</Key>{f'<VersionId>{_text(version)}</VersionId>' if version else ''}</Deleted>"
            for key, version in arrival.deleted
        )
        return _reply(arrival, 200, _wrapped("DeleteResult", entries))


def named_in(document: bytes) -> tuple[Part, ...]:
    """Keys and versions that a document of a multiple delete names. Go takes the last of repeated elements."""
    found = []
    for entry in ElementTree.fromstring(document):
        if entry.tag.rpartition("}")[2] == "Object":
            fields = {child.tag.rpartition("}")[2]: child.text or "" for child in entry}
            found.append(Part(fields.get("Key", ""), fields.get("VersionId", "")))
    return tuple(found)


def _document(name: str, meaning: Meaning, shown: str) -> str:
    bucket, key = _text(meaning.bucket), _text(meaning.key)
    entry = f'<Key>{shown}</Key><LastModified>2026-03-17T10:00:00.000Z</LastModified><ETag>"{shown}"</ETag>'
    entry += "<Size>1</Size><StorageClass>STANDARD</StorageClass>"
    if name in ("ListObjects", "ListObjectsV2"):
        inside = f"<Name>{bucket}</Name><IsTruncated>false</IsTruncated><Contents>{entry}</Contents>"
        return _wrapped("ListBucketResult", inside).decode()
    if name == "ListObjectVersions":
        inside = f"<VersionId>null</VersionId><IsLatest>true</IsLatest>{entry}"
        return _wrapped("ListVersionsResult", f"<Name>{bucket}</Name><Version>{inside}</Version>").decode()
    if name == "ListMultipartUploads":  # who may write may list uploads, so these bear no mark
        return _wrapped("ListMultipartUploadsResult", f"<Bucket>{bucket}</Bucket>").decode()
    if name == "ListParts":
        return _wrapped("ListPartsResult", f"<Bucket>{bucket}</Bucket><Key>{key}</Key>").decode()
    if name in ("GetObjectTagging", "GetBucketTagging"):
        return _wrapped("Tagging", f"<TagSet><Tag><Key>{shown}</Key><Value>v</Value></Tag></TagSet>").decode()
    return _wrapped(name.removeprefix("Get"), f"<Mark>{shown}</Mark>").decode()


def _text(text: str) -> str:
    """For XML, whose characters do not include all that a key may have."""
    return "".join(one if one >= " " or one in "\t\n\r" else "?" for one in escape(text, {"\r": "&#13;"}))


def _wrapped(root: str, inside: str) -> bytes:
    document = f'<?xml version="1.0" encoding="UTF-8"?><{root} {_NAMESPACE}>{inside}</{root}>'
    return document.encode("utf-8", "replace")


def _reply(
    arrival: Arrival, status: int, body: bytes = b"", *, etag: bytes = b"", kind: bytes = b"application/xml"
) -> bytes:
    arrival.status = status
    lines = [b"HTTP/1.1 %d Recorded" % status, b"Last-Modified: " + _MODIFIED]
    if etag:
        lines.append(b'ETag: "%s"' % etag)
    if status != 204:
        lines += [b"Content-Length: %d" % len(body), b"Content-Type: " + kind]
    head = b"\r\n".join(lines) + b"\r\n\r\n"
    return head if arrival.method == b"HEAD" or status == 204 else head + body


class _Connection(asyncio.Protocol):
    """Reads requests one after the other, each when it is whole: half a request has no effect on a store."""

    def __init__(self, store: RecordingStore) -> None:
        self._store = store
        self._data = bytearray()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._data += data
        assert self._transport is not None
        try:
            while (request := self._next()) is not None:
                self._transport.write(self._store.answer(*request))
        except Malformed as error:
            self._store.malformed(bytes(self._data), str(error))
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
            self._transport.close()

    def _next(self) -> tuple[bytes, bytes, Headers, bytes] | None:
        end = self._data.find(b"\r\n\r\n")
        if end < 0:
            return None
        method, target, headers = _head(bytes(self._data[:end]))
        length = header(headers, b"content-length")
        if header(headers, b"transfer-encoding"):
            found = _unchunked(self._data, end + 4)
            if found is None:
                return None
            body, after = found
        else:
            if length and not length.isdigit():
                raise Malformed("the length is no number")
            after = end + 4 + int(length or b"0")
            if after > _ENOUGH:
                raise Malformed("the request is too long")
            if len(self._data) < after:
                self._encourage(headers)
                return None
            body = bytes(self._data[end + 4 : after])
        del self._data[:after]
        return method, target, headers, body

    def _encourage(self, headers: Headers) -> None:
        if header(headers, b"expect") and self._transport is not None:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")


def _head(raw: bytes) -> tuple[bytes, bytes, Headers]:
    first, *lines = raw.split(b"\r\n")
    words = first.split(b" ")
    if len(words) != 3 or words[2] != b"HTTP/1.1" or b"\n" in raw.replace(b"\r\n", b""):
        raise Malformed(f"the request line {first[:200]!r}")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if not colon or name != name.strip() or not name:
            raise Malformed(f"the header line {line[:200]!r}")
        headers.append((name, value.strip(b" \t")))
    return words[0], words[1], headers


def _unchunked(data: bytearray, at: int) -> tuple[bytes, int] | None:
    """The body and where it ends; None while it is not all there."""
    body = b""
    while True:
        line = data.find(b"\r\n", at)
        if line < 0:
            return None
        size = bytes(data[at:line])
        if not re.fullmatch(rb"[0-9a-fA-F]{1,8}", size):
            raise Malformed(f"the chunk size {size[:50]!r}")
        start, end = line + 2, line + 2 + int(size, 16)
        if len(data) < end + 2:
            return None
        if data[end : end + 2] != b"\r\n":
            raise Malformed("a chunk without its end, or a trailer")
        body += data[start:end]
        at = end + 2
        if start == end:
            return body, at
