"""An S3 endpoint over HTTP: connections that are kept open, requests signed with one key, errors in our own words."""

from __future__ import annotations

import http.client
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from tidegate.adapters.http_response import Response
from tidegate.adapters.s3_errors import TROUBLE, check, trouble_with
from tidegate.adapters.s3_requests import Answer, Body, Request, Throttle, Unlimited
from tidegate.core import sigv4
from tidegate.core.errors import InvalidInput, Unavailable

# A pool that sleeps must be woken first.
POOL_TIMEOUT_SECONDS = 150.0
LOCATION_TIMEOUT_SECONDS = 60.0
CHUNK_BYTES = 256 * 1024
_LARGEST_ANSWER = 16 * 1024 * 1024
# The others were needed for a moment only.
_MOST_IDLE = 64
# Sent once more if a kept connection turns out to be closed. All our PUTs may be repeated; a conditional delete that
# was made would be answered as if somebody else had made it.
_REPEATABLE = frozenset({"GET", "HEAD", "PUT"})


def verified_tls(ca_file: str = "") -> ssl.SSLContext:
    """Trusts the authorities in the file, or, without one, those of the system."""
    try:
        return ssl.create_default_context(cafile=ca_file or None)
    except OSError as error:
        reason = "it holds no certificates in PEM" if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidInput(f"the file {ca_file} with authorities cannot be used: {reason}") from None


@dataclass(frozen=True, slots=True)
class _Exchange:
    """A request and the head of its answer. `is_whole`: all of the request was sent."""

    connection: http.client.HTTPConnection
    response: Response
    is_whole: bool


class S3Endpoint:
    """`tls` says how certificates are checked; None checks none. May be shared by threads."""

    def __init__(
        self,
        url: str,
        access_key: str,
        secret: str,
        *,
        region: str,
        tls: ssl.SSLContext | None,
        timeout: float,
        throttle: Throttle | None = None,
    ) -> None:
        where = urlsplit(url)
        if where.scheme not in ("http", "https") or not where.netloc:
            raise InvalidInput(f"{url!r} is not the address of an S3 endpoint")
        self.host = where.netloc
        self.throttle: Throttle = throttle or Unlimited()
        # The endpoint may be our own, on this machine: its certificate names the public host.
        self._tls = (tls or ssl._create_unverified_context()) if where.scheme == "https" else None
        self._credentials = (access_key, secret)
        self._region = region
        self._timeout = timeout
        self._lock = threading.Lock()
        self._idle: list[http.client.HTTPConnection] = []
        self._is_closed = False

    def ask(self, request: Request) -> Answer:
        """The answer, if it is none of an error."""
        answer = self.send(request)
        check(answer.status, answer.body, request.subject)
        return answer

    def send(self, request: Request) -> Answer:
        exchange = self._exchanged(request)
        try:
            content = self._all_of(exchange.response)
        except BaseException:
            exchange.connection.close()
            raise
        self._keep(exchange)
        return Answer(exchange.response.status, exchange.response.fields, content)

    @contextmanager
    def stream(self, request: Request) -> Iterator[tuple[Answer, Iterator[bytes]]]:
        """The head of an answer that is none of an error, and its body piece by piece."""
        with self.throttle.transfer():
            exchange = self._exchanged(request)
            response = exchange.response
            try:
                if response.status >= 300:
                    check(response.status, self._all_of(response), request.subject)
                yield Answer(response.status, response.fields, b""), self._pieces(response)
            except BaseException:
                exchange.connection.close()
                raise
            self._keep(exchange)

    def close(self) -> None:
        """The connections that are not in use; the others are closed by those who use them."""
        with self._lock:
            self._is_closed = True
            connections, self._idle = self._idle, []
        for connection in connections:
            connection.close()

    # --- one request -----------------------------------------------------------------------------

    def _exchanged(self, request: Request) -> _Exchange:
        connection = self._connection()
        was_kept = connection.sock is not None
        try:
            return self._exchange(connection, request)
        except ConnectionError as error:
            if not (was_kept and request.method in _REPEATABLE and isinstance(request.body, bytes)):
                raise trouble_with(self.host, error) from None
        except TROUBLE as error:
            raise trouble_with(self.host, error) from None
        try:
            return self._exchange(self._new_connection(), request)
        except TROUBLE as error:
            raise trouble_with(self.host, error) from None

    def _exchange(self, connection: http.client.HTTPConnection, request: Request) -> _Exchange:
        """Sends the request, and has the head of its answer."""
        text = request.query_text
        target, headers = f"{request.path}?{text}" if text else request.path, self._signed(request)
        is_whole = True
        try:
            try:
                connection.request(request.method, target, body=self._paced(request.body), headers=headers)
            except (BrokenPipeError, ConnectionResetError):
                if connection.sock is None:
                    raise
                # A server that refuses a body may say so before it has all of it, and close the connection.
                is_whole = False
            response = connection.getresponse()
            assert isinstance(response, Response), "connections are made with it"
            return _Exchange(connection, response, is_whole)
        except BaseException:
            connection.close()
            raise

    def _paced(self, body: Body) -> Body | None:
        if not isinstance(body, bytes):
            return body
        return self._slices(body) if body else None

    def _slices(self, body: bytes) -> Iterator[bytes]:
        """One after the other: a socket's timeout is that of a whole call, and must not depend on the body's size."""
        rest = memoryview(body)
        while rest:
            piece, rest = rest[: (size := self.throttle.portion(CHUNK_BYTES))], rest[size:]
            self.throttle.moved(len(piece))
            yield piece  # type: ignore[misc]  # sockets send it without a copy

    def _signed(self, request: Request) -> dict[str, bytes]:
        given = {"host": self.host, **(request.headers or {})}
        if isinstance(request.body, bytes) and (request.body or request.method in ("PUT", "POST")):
            given["content-length"] = str(len(request.body))
        plain = {name.encode(): value.encode(errors="surrogateescape") for name, value in given.items()}
        added = sigv4.sign(
            request.method.encode(),
            request.path.encode(),
            request.query_text.encode(),
            plain,
            access_key=self._credentials[0],
            secret=self._credentials[1],
            region=self._region,
            payload=request.digest,
            now=time.time(),
        )
        return {name.decode(): value for name, value in {**plain, **added}.items()}

    # --- answers ---------------------------------------------------------------------------------

    def _all_of(self, response: Response) -> bytes:
        expected = response.length
        try:
            content = response.read(_LARGEST_ANSWER + 1)
        except TROUBLE as error:
            raise trouble_with(self.host, error) from None
        if len(content) > _LARGEST_ANSWER:
            raise Unavailable(f"the S3 endpoint {self.host} answered with more than {_LARGEST_ANSWER} bytes")
        if expected is not None and len(content) < expected:
            raise trouble_with(self.host, http.client.IncompleteRead(b"", expected - len(content)))
        return content

    def _pieces(self, response: Response) -> Iterator[bytes]:
        """All of a body, or `Unavailable`: `http.client` takes a broken connection for the end."""
        left = response.length
        while True:
            try:
                piece = response.read(self.throttle.portion(CHUNK_BYTES))
            except TROUBLE as error:
                raise trouble_with(self.host, error) from None
            if not piece:
                break
            left = None if left is None else left - len(piece)
            self.throttle.moved(len(piece))
            yield piece
        if left:
            raise Unavailable(f"the S3 endpoint {self.host} broke off with {left} bytes to come")

    # --- connections -----------------------------------------------------------------------------

    def _connection(self) -> http.client.HTTPConnection:
        while True:
            with self._lock:
                connection = self._idle.pop() if self._idle else None
            if connection is None:
                return self._new_connection()
            if not _is_stale(connection):
                return connection
            connection.close()

    def _new_connection(self) -> http.client.HTTPConnection:
        made = (
            http.client.HTTPConnection(self.host, timeout=self._timeout)
            if self._tls is None
            else http.client.HTTPSConnection(self.host, timeout=self._timeout, context=self._tls)
        )
        made.response_class = Response
        return made

    def _keep(self, exchange: _Exchange) -> None:
        """For the next request, if nothing of this one is left on the way."""
        connection = exchange.connection
        if exchange.is_whole and exchange.response.isclosed() and connection.sock is not None:
            with self._lock:
                if len(self._idle) < _MOST_IDLE and not self._is_closed:
                    self._idle.append(connection)
                    return
        connection.close()


def _is_stale(connection: http.client.HTTPConnection) -> bool:
    """Whether the server has closed it, or says something unasked: then it is readable before a request was sent."""
    connection.sock.setblocking(False)
    try:
        connection.sock.recv(1)
    except (BlockingIOError, ssl.SSLWantReadError):
        return False
    except OSError:
        return True
    finally:
        connection.sock.settimeout(connection.timeout)
    return True
