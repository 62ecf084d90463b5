"""Clients that ask before they send a body: botocore does so for every file, the empty ones among them."""

from __future__ import annotations

import socket

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from ways import Way


@pytest.fixture(scope="module")
def bucket(gateway: Way) -> str:
    gateway.s3().create_bucket(Bucket="expect-continue")
    return "expect-continue"


@pytest.mark.parametrize("body", [b"", b"x"], ids=["empty", "one-byte"])
def test_an_upload_that_asks_is_told_to_continue(gateway: Way, bucket: str, body: bytes) -> None:
    """The botocore of aws takes a reply without 100 for that of the next request on the connection, and hangs."""
    request = AWSRequest("PUT", f"{gateway.url}/{bucket}/key-{len(body)}", data=body)
    credentials = Credentials(gateway.key.access_key, gateway.key.secret_key)
    S3SigV4Auth(credentials, "s3", "us-east-1").add_auth(request)
    headers = {
        **dict(request.headers),
        "Host": gateway.authority,
        "Content-Length": str(len(body)),
        "Expect": "100-continue",
    }
    head = f"PUT /{bucket}/key-{len(body)} HTTP/1.1\r\n"
    head += "".join(f"{name}: {value}\r\n" for name, value in headers.items()) + "\r\n"
    host, _, port = gateway.authority.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as wire, wire.makefile("rb") as replies:
        wire.sendall(head.encode())
        assert replies.readline() == b"HTTP/1.1 100 Continue\r\n"
        assert replies.readline() == b"\r\n"
        wire.sendall(body)
        assert replies.readline() == b"HTTP/1.1 200 OK\r\n"
