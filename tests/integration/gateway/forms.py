"""Forms as bytes, with policies that are signed as S3's documentation words it."""

from __future__ import annotations

import hmac
import json
import time
from base64 import b64encode
from typing import Any

from running_service import PoolKey

BOUNDARY = "----WebKitFormBoundary7MA4YWxkTrZu0gW"
CONTENT_TYPE = f"multipart/form-data; boundary={BOUNDARY}"
Fields = dict[str, str]


def signed_fields(
    key: PoolKey, bucket: str, fields: Fields, *more: Any, seconds: float = 600, at: float = 0, uncovered: str = ""
) -> Fields:
    """The fields with a policy that asks for exactly these values, and `more` conditions; then its signature."""
    now = at or time.time()
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    scope = f"{stamp[:8]}/us-east-1/s3/aws4_request"
    fields = fields | {
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": f"{key.access_key}/{scope}",
        "x-amz-date": stamp,
    }
    named = {condition[1][1:] for condition in more if isinstance(condition, list) and isinstance(condition[1], str)}
    exact = [{name: value} for name, value in fields.items() if name not in named and name != uncovered]
    expiration = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now + seconds))
    document = {"expiration": expiration, "conditions": [{"bucket": bucket}, *exact, *more]}
    policy = b64encode(json.dumps(document).encode()).decode()
    secret = f"AWS4{key.secret_key}".encode()
    for part in scope.split("/"):
        secret = hmac.digest(secret, part.encode(), "sha256")
    return fields | {"policy": policy, "x-amz-signature": hmac.digest(secret, policy.encode(), "sha256").hex()}


def form_start(fields: Fields, filename: str = "file.bin") -> bytes:
    """All that comes before the data of the file."""
    parts = [
        f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="{name}"\r\n\r\n{value}\r\n'
        for name, value in fields.items()
    ]
    file = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="file"; filename="{filename}"\r\n'
    return "".join([*parts, file, "Content-Type: application/octet-stream\r\n\r\n"]).encode()


FORM_END = f"\r\n--{BOUNDARY}--\r\n".encode()


def form_body(fields: Fields, data: bytes, filename: str = "file.bin") -> bytes:
    return form_start(fields, filename) + data + FORM_END


def post_head(host: str, path: str, length: int, *lines: str) -> bytes:
    """The head of the request; a length below zero announces chunks."""
    framing = f"Content-Length: {length}" if length >= 0 else "Transfer-Encoding: chunked"
    head = [f"POST {path} HTTP/1.1", f"Host: {host}", f"Content-Type: {CONTENT_TYPE}", framing, *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n"
