"""The few signed S3 requests that a manager makes to its own backend."""

from __future__ import annotations

import http.client
import time
from xml.etree.ElementTree import ParseError

from defusedxml import DefusedXmlException
from defusedxml.ElementTree import fromstring

from tidegate.backend_address import host_header, is_socket, open_socket
from tidegate.core.errors import Unavailable
from tidegate.core.sigv4 import EMPTY_SHA256, sign

_REGION = "us-east-1"
_LONGEST_REPLY = 64 * 1024 * 1024


class AdminClient:
    """One connection per request: these are rare, and a fresh one also shows that the server accepts."""

    def __init__(self, endpoint: str, access_key: str, secret: str) -> None:
        self._endpoint = endpoint
        self._access_key = access_key
        self._secret = secret

    def bucket_names(self, timeout: float) -> set[str]:
        """Raises `Unavailable` unless the server knows the key and answers in time."""
        status, body = self._request("GET", "/", timeout)
        if status != 200:
            raise Unavailable(f"the backend at {self._endpoint} answers {status} to its administrator")
        return _bucket_names(body)

    def create_bucket(self, name: str, timeout: float) -> None:
        status, _ = self._request("PUT", f"/{name}", timeout)
        if status not in (200, 409):  # 409: it is there already
            raise Unavailable(f"the backend at {self._endpoint} answers {status} to the creation of bucket {name}")

    def _request(self, method: str, path: str, timeout: float) -> tuple[int, bytes]:
        host = host_header(self._endpoint)
        headers = sign(
            method.encode(),
            path.encode(),
            b"",
            {b"host": host},
            access_key=self._access_key,
            secret=self._secret,
            region=_REGION,
            payload=EMPTY_SHA256,
            now=time.time(),
        )
        connection = _connection(self._endpoint, timeout)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            connection.putheader("Host", host.decode())
            connection.putheader("Content-Length", "0")
            for name, value in headers.items():
                connection.putheader(name.decode(), value.decode())
            connection.endheaders()
            reply = connection.getresponse()
            return reply.status, reply.read(_LONGEST_REPLY)
        except (OSError, http.client.HTTPException) as error:
            why = "no answer in time" if isinstance(error, TimeoutError) else str(error)
            raise Unavailable(f"the backend at {self._endpoint} does not answer: {why}") from None
        finally:
            connection.close()


class _SocketConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = open_socket(self._path)
        self.sock.settimeout(self.timeout)


def _connection(endpoint: str, timeout: float) -> http.client.HTTPConnection:
    if is_socket(endpoint):
        return _SocketConnection(endpoint, timeout)
    host, _, port = endpoint.rpartition(":")
    return http.client.HTTPConnection(host, int(port), timeout=timeout)


def _bucket_names(body: bytes) -> set[str]:
    try:
        tree = fromstring(body)
    except (ParseError, DefusedXmlException):
        raise Unavailable("the backend's list of buckets is not XML") from None
    return {
        element.text or ""
        for bucket in tree.iter()
        if bucket.tag.rpartition("}")[2] == "Bucket"
        for element in bucket
        if element.tag.rpartition("}")[2] == "Name"
    }
