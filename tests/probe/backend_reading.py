"""What a backend reads in a request, by a small reader written from S3's documentation and knowing Go's habits.

It reads pessimistically. Whatever two servers could read differently is a fault, even if this reader finds a meaning:
a semicolon in the query (gorilla/mux splits there, net/http does not), a parameter given twice, an escape that is not
S3's own, a parameter or header that the operation does not have.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote_to_bytes

from requests_on_the_wire import quoted
from s3_operations import (
    BY_REQUEST,
    COMMON_HEADERS,
    COPY_OBJECT,
    LIST_OBJECTS_V2,
    SUBRESOURCES,
    UPLOAD_PART_COPY,
    Effect,
    Known,
    Scope,
    documented_name,
)

# The parameters by which routers choose an operation.
_ROUTING = SUBRESOURCES | {"list-type", "partNumber"}
Headers = list[tuple[bytes, bytes]]
_TOKEN = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_PORT = re.compile(r":[0-9]+$")
_SEPARATORS = re.compile(rb"[&;]")


class Meaning(NamedTuple):
    """Which operation, on what. `source` is the bucket, key and version that a copy reads."""

    operation: str
    effect: Effect
    bucket: str = ""
    key: str = ""
    version_id: str = ""
    upload_id: str = ""
    source: tuple[str, str, str] | None = None


@dataclass(slots=True)
class Reading:
    meaning: Meaning | None
    event: str = ""
    faults: list[str] = field(default_factory=list)


def read(method: bytes, target: bytes, headers: Headers, *, domain: str = "") -> Reading:
    """`domain`: names under it are buckets in virtual-hosted style, for a backend that was told so."""
    faults: list[str] = []
    raw_path, mark, raw_query = target.partition(b"?")
    bucket, key = _place(raw_path, headers, domain, faults)
    parameters = _parameters(raw_query, faults) if mark else {}
    scope: Scope = "object" if key else "bucket" if bucket else "service"
    known = _operation(method.decode("latin-1"), scope, parameters, headers, faults)
    _check_headers(headers, known, faults)
    if known is None:
        faults.append(f"unknown operation: {method!r} on {scope} with {sorted(parameters)}")
        return Reading(None, "", faults)
    allowed = known.parameters | {known.subresource}
    faults += [f"parameter: {name!r} in {documented_name(known)}" for name in parameters if name not in allowed]
    source = _source(headers, faults) if known in (COPY_OBJECT, UPLOAD_PART_COPY) else None
    meaning = Meaning(
        documented_name(known),
        known.effect,
        bucket,
        key,
        parameters.get("versionId", "") if "versionId" in known.parameters else "",
        parameters.get("uploadId", "") if known.subresource == "uploadId" else "",
        source,
    )
    return Reading(meaning, known.event, faults)


def header(headers: Headers, name: bytes) -> bytes:
    return next((value for known, value in headers if known.lower() == name), b"")


def text_of(raw: bytes) -> str:
    """Bytes that are no UTF-8 stay apart from each other."""
    return raw.decode("utf-8", "surrogateescape")


def _place(path: bytes, headers: Headers, domain: str, faults: list[str]) -> tuple[str, str]:
    if not path.startswith(b"/"):
        faults.append("target: not in origin form")
        path = b"/" + path.partition(b"://")[2].partition(b"/")[2]
    if path != quoted(unquote_to_bytes(path), b"/"):
        faults.append("escapes: the path is not encoded as S3 does")
    decoded = unquote_to_bytes(path)
    if any(segment in (b".", b"..") for segment in decoded.split(b"/")):
        faults.append("path: dot segments")
    host = _PORT.sub("", header(headers, b"host").decode("latin-1"))
    if domain and host.endswith("." + domain):
        faults.append("host: virtual-hosted")
        return host.removesuffix("." + domain), text_of(decoded[1:])
    name, _, key = decoded[1:].partition(b"/")
    if not name and key:
        faults.append("path: empty bucket name")
    return text_of(name), text_of(key)


def _parameters(query: bytes, faults: list[str]) -> dict[str, str]:
    if b";" in query:
        faults.append("separator: a semicolon in the query")
    found: dict[str, str] = {}
    for part in _SEPARATORS.split(query):
        name, _, value = part.partition(b"=")
        if not name:
            faults.append("parameter: an empty one")
            continue
        if any(piece != quoted(unquote_to_bytes(piece)) for piece in (name, value)):
            faults.append("escapes: the query is not encoded as S3 does")
        plain = text_of(unquote_to_bytes(name.replace(b"+", b" ")))
        if plain in found:
            faults.append(f"parameter: {plain!r} twice")
        found[plain] = text_of(unquote_to_bytes(value.replace(b"+", b" ")))
    return found


def _operation(
    method: str, scope: Scope, parameters: dict[str, str], headers: Headers, faults: list[str]
) -> Known | None:
    # A route's pattern for a value, which is ".*", matches no line break: the router does not see such a parameter.
    unseen = {name for name in parameters if name in _ROUTING and "\n" in parameters[name]}
    faults += [f"line break: a router does not see {name!r}" for name in sorted(unseen)]
    named = sorted(SUBRESOURCES.intersection(parameters) - unseen)
    if len(named) > 1:
        faults.append(f"sub-resources: several at once, {named}")
    candidates = [known for name in named if (known := BY_REQUEST.get((method, scope, name))) is not None]
    if named and not candidates:
        faults.append(f"sub-resources: {method} has none of {named}")
    # Of several a router takes whichever stands first in its table: the worst is assumed.
    known = next((one for one in candidates if one.effect == "write"), candidates[0] if candidates else None)
    if known is None:
        known = BY_REQUEST.get((method, scope, ""))
    if known is None:
        return None
    copies = any(name.lower() == b"x-amz-copy-source" for name, _ in headers)
    if known.name == "PutObject" and copies:
        return COPY_OBJECT
    if known.name == "UploadPart" and copies:
        return UPLOAD_PART_COPY
    return LIST_OBJECTS_V2 if known.name == "ListObjects" and "list-type" in parameters else known


def _check_headers(headers: Headers, known: Known | None, faults: list[str]) -> None:
    seen: set[str] = set()
    for raw, value in headers:
        name = raw.decode("latin-1").lower()
        if not _TOKEN.fullmatch(raw):
            faults.append(f"header: {raw!r} is no name")
        if b"\r" in value or b"\n" in value or b"\0" in value:
            faults.append(f"header: {name} has a line break or a NUL")
        if name in seen:
            faults.append(f"header: {name} twice")
        seen.add(name)
        allowed = COMMON_HEADERS | (known.headers if known else frozenset())
        if name not in allowed and not ("x-amz-meta-*" in allowed and name.startswith("x-amz-meta-")):
            faults.append(f"header: {name} in {documented_name(known) if known else 'nothing known'}")
    if {"content-length", "transfer-encoding"} <= seen:
        faults.append("header: two framings")


def _source(headers: Headers, faults: list[str]) -> tuple[str, str, str]:
    value = header(headers, b"x-amz-copy-source").strip()
    path, _, query = value.partition(b"?")
    if path != quoted(unquote_to_bytes(path), b"/"):
        faults.append("escapes: the copy's source is not encoded as S3 does")
    version = b""
    if query:
        name, _, version = query.partition(b"=")
        if name != b"versionId" or not version or quoted(unquote_to_bytes(version)) != version:
            faults.append("source: more than a version id behind the key")
    bucket, _, key = unquote_to_bytes(path).removeprefix(b"/").partition(b"/")
    return text_of(bucket), text_of(key), text_of(unquote_to_bytes(version))
