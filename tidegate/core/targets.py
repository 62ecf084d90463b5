"""Buckets and keys in requests: from the path and the host name, and from the source of a copy."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Literal, NamedTuple
from urllib.parse import parse_qsl, unquote_to_bytes

from tidegate.core.s3errors import S3Error

LONGEST_KEY = 1024
_LONGEST_HOST = 512
_BAD_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")


class Target(NamedTuple):
    """Decoded; `bucket` and `key` are empty where the request names none."""

    bucket: str
    key: str
    style: Literal["path", "virtual"]


class CopySource(NamedTuple):
    bucket: str
    key: str
    version_id: str


def parse_target(path: bytes, host: str, domains: tuple[str, ...]) -> Target:
    """Path style, unless the host is a name under one of the endpoint's domains."""
    if path[:1] != b"/":
        raise S3Error("InvalidURI")
    if len(host) > _LONGEST_HOST:
        raise S3Error("InvalidRequest", "The Host header is too long.")
    bucket = virtual_bucket(host, domains)
    if bucket:
        return Target(bucket, _key(path[1:]), "virtual")
    name, _, key = path[1:].partition(b"/")
    if not name:
        if key:
            # A backend that cleans paths would see another bucket than the one that was checked here.
            raise S3Error("InvalidURI", "The path has an empty bucket name.")
        return Target("", "", "path")
    return Target(_decoded(name), _key(key) if key else "", "path")


@lru_cache(maxsize=1024)
def virtual_bucket(host: str, domains: tuple[str, ...]) -> str:
    """The bucket that a Host header names in virtual-hosted style; "" when it names none."""
    name = _without_port(host).lower().removesuffix(".")
    candidates = [domain.lower() for domain in domains]
    if name in candidates:
        return ""
    for domain in sorted(candidates, key=len, reverse=True):
        if name.endswith("." + domain):
            return name[: -len(domain) - 1]
    return ""


def _without_port(host: str) -> str:
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.partition(":")[0]


def parse_copy_source(value: bytes) -> CopySource:
    """The header x-amz-copy-source: [/]BUCKET/KEY[?versionId=ID], percent-encoded."""
    path, _, query = value.strip().partition(b"?")
    name, _, key = _unescaped(path).removeprefix(b"/").partition(b"/")
    if not name or not key:
        raise S3Error("InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey")
    if name.startswith(b"arn:"):
        raise S3Error("NotImplemented", "Access points as a copy's source are not implemented.")
    return CopySource(_text(name), checked_key(key), _version_id(query))


def _version_id(query: bytes) -> str:
    if not query:
        return ""
    try:
        parameters = parse_qsl(query.decode("ascii"), keep_blank_values=True, max_num_fields=1)
    except ValueError:
        parameters = []
    if len(parameters) != 1 or parameters[0][0] != "versionId" or not parameters[0][1]:
        raise S3Error("InvalidArgument", "After the source key only ?versionId=ID may follow; encode ? as %3F.")
    return parameters[0][1]


def _key(raw: bytes) -> str:
    return checked_key(_unescaped(raw))


def checked_key(key: bytes) -> str:
    if len(key) > LONGEST_KEY:
        raise S3Error("KeyTooLongError", fields={"Size": str(len(key)), "MaxSizeAllowed": str(LONGEST_KEY)})
    return _text(key)


def _decoded(raw: bytes) -> str:
    return _text(_unescaped(raw))


def _unescaped(raw: bytes) -> bytes:
    if b"%" not in raw:
        return raw
    if _BAD_ESCAPE.search(raw):
        raise S3Error("InvalidURI", "A percent sign in the path is not followed by two hexadecimal digits.")
    return unquote_to_bytes(raw)


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise S3Error("InvalidURI", "Bucket names and keys must be valid UTF-8.") from None
    if "\0" in text:
        raise S3Error("InvalidURI", "Keys must not contain the NUL character.")
    return text
