"""HTTP/1.1 heads and framing: what a request or a response says about itself, and where it ends.

llhttp (through httptools) judges the syntax; what it leaves open and a proxy must not (two lengths,
a length beside chunks, two hosts, bare line feeds) is refused here, since whoever disagrees about
where a message ends can smuggle one.
"""

from __future__ import annotations

import httptools

END_OF_HEAD = b"\r\n\r\n"
_CHUNKED_REQUEST = b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"
_CHUNKED_RESPONSE = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
_MOST_FRAMING_BYTES = 32 * 1024
_MOST_FRAMING_SHARE = 16  # a client that sends byte by byte takes six for each
_SINGLE = frozenset((b"host", b"content-length", b"transfer-encoding", b"authorization", b"x-amz-date", b"expect"))
_HOP_BY_HOP = frozenset((b"connection", b"http2-settings", b"keep-alive", b"proxy-connection", b"te", b"upgrade"))
_CONNECTION_OPTIONS = _HOP_BY_HOP | {b"close"}
_MAX_LENGTH = 5 * 1024**4 * 2  # twice the largest S3 object: chunk signatures make a body longer than its data


class BadMessage(Exception):
    """The peer does not speak HTTP/1.1 as it should; its connection cannot be used any more."""


class _HeadCollector:
    __slots__ = ("headers", "seen_twice", "target")

    def __init__(self) -> None:
        self.headers: dict[bytes, bytes] = {}
        self.target = b""
        self.seen_twice = b""

    def on_url(self, part: bytes) -> None:
        self.target += part

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        headers = self.headers
        if name in headers:
            if name in _SINGLE:
                self.seen_twice = name
            headers[name] += b"," + value
        else:
            headers[name] = value


class RequestHead:
    """A request's head. `headers` has lower-case names; repeated ones are joined by commas."""

    __slots__ = (
        "chunked",
        "content_length",
        "headers",
        "is_1_1",
        "keep_alive",
        "method",
        "path",
        "query",
        "target",
    )

    def __init__(self, raw: bytes) -> None:
        collector = _HeadCollector()
        parser = httptools.HttpRequestParser(collector)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            pass  # an offer to change the protocol may be ignored
        except httptools.HttpParserError as error:
            raise BadMessage(str(error)) from None
        if raw.count(b"\n") != raw.count(b"\r\n"):
            raise BadMessage("a line of the head does not end in CRLF")
        version = parser.get_http_version()
        if version not in ("1.1", "1.0"):
            raise BadMessage(f"HTTP version {version} is not spoken here")
        # The parser lets other protocols and further spaces through, which a backend may read in its own way.
        if not raw.startswith(b"%b %b HTTP/1." % (parser.get_method(), collector.target)):
            raise BadMessage("the request line is not METHOD TARGET VERSION")
        headers = collector.headers
        if collector.seen_twice:
            raise BadMessage(f"more than one {collector.seen_twice.decode()} header")
        self.method = parser.get_method()
        self.headers = headers
        self.target = target = collector.target
        if b"?" in target:
            self.path, _, self.query = target.partition(b"?")
        else:
            self.path, self.query = target, b""
        if not target.startswith(b"/") or b"#" in target:
            raise BadMessage("the request target must be a path")
        if b"host" not in headers and version == "1.1":
            raise BadMessage("the Host header is missing")
        self.is_1_1 = self.keep_alive = version == "1.1"
        if b"connection" in headers and b"close" in _connection_options(headers[b"connection"]):
            self.keep_alive = False
        self.content_length, self.chunked = _framing(headers)


def _connection_options(value: bytes) -> set[bytes]:
    """What the Connection header says. It may not make a header of the request vanish on the way to the backend:
    the decision about the request was made with it."""
    options = {option.strip() for option in value.lower().split(b",")} - {b""}
    if not options <= _CONNECTION_OPTIONS:
        raise BadMessage("the Connection header names a header that is not for this connection alone")
    return options


def _framing(headers: dict[bytes, bytes]) -> tuple[int, bool]:
    length = headers.get(b"content-length")
    coding = headers.get(b"transfer-encoding")
    if coding is not None:
        if length is not None:
            raise BadMessage("both Content-Length and Transfer-Encoding")
        if coding.strip().lower() != b"chunked":
            raise BadMessage("the only transfer coding spoken here is chunked")
        return 0, True
    if length is None:
        return 0, False
    if not length.isdigit() or len(length) > 16 or int(length) > _MAX_LENGTH:
        raise BadMessage("Content-Length is not a reasonable number")
    return int(length), False


class _NoCallbacks:
    """For a parser that is only to judge."""


_NO_CALLBACKS = _NoCallbacks()


class ResponseHead:
    """A backend's response head. `length` is None when only the end of the connection ends the body; `is_plain` tells
    that no header speaks of this connection only, or to browsers, to whom the gateway speaks itself."""

    __slots__ = ("_headers", "chunked", "is_plain", "keep_alive", "length", "raw", "status")

    def __init__(self, raw: bytes, *, to_head_request: bool) -> None:
        parser = httptools.HttpResponseParser(_NO_CALLBACKS)
        try:
            parser.feed_data(raw)
        except httptools.HttpParserUpgrade:
            raise BadMessage("a change of the protocol that nobody asked for") from None
        except httptools.HttpParserError as error:
            raise BadMessage(str(error)) from None
        self.raw = raw
        self._headers: dict[bytes, bytes] | None = None
        self.status = parser.get_status_code()
        lowered = raw.lower()
        self.is_plain = (
            b"\r\nconnection:" not in lowered
            and b"\r\nkeep-alive:" not in lowered
            and b"\r\naccess-control-" not in lowered
        )
        # Not the parser's word for it: of a message without a body, which is over already, it knows nothing any more.
        self.keep_alive = parser.get_http_version() == "1.1" and b"close" not in _value(lowered, b"connection")
        self.chunked = False
        self.length: int | None = 0
        if to_head_request or self.status in (204, 304) or self.status < 200:
            return
        length = _value(lowered, b"content-length")
        if length and b"\r\ntransfer-encoding:" not in lowered:
            self.length = _framing({b"content-length": length})[0]
        elif b"\r\ntransfer-encoding:" in lowered:
            self.chunked = True
            self.length = None
        else:
            self.length = None
            self.keep_alive = False

    @property
    def headers(self) -> dict[bytes, bytes]:
        """With lower-case names. Most replies pass without anybody asking for them."""
        if self._headers is None:
            self._headers = {}
            for line in self.raw[:-4].split(b"\r\n")[1:]:
                name, _, value = line.partition(b":")
                self._headers[name.lower()] = value.strip()
        return self._headers


def _value(lowered: bytes, name: bytes) -> bytes:
    """Of a header in a head of lower-case letters; empty when there is none."""
    start = lowered.find(b"\r\n" + name + b":")
    if start < 0:
        return b""
    start += len(name) + 3
    return lowered[start : lowered.index(b"\r\n", start)].strip()


class _BodyCollector:
    __slots__ = ("complete", "excess", "parts")

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.complete = False
        self.excess = False

    def on_message_begin(self) -> None:
        if self.complete:
            self.excess = True

    def on_body(self, data: bytes) -> None:
        self.parts.append(data)

    def on_message_complete(self) -> None:
        self.complete = True


class ChunkedDecoder:
    """Takes a body in Transfer-Encoding: chunked apart. `excess` tells that bytes followed its end."""

    __slots__ = ("_collector", "_framing_bytes", "_parser", "_payload_bytes")

    def __init__(self, *, response: bool = False) -> None:
        self._payload_bytes = 0
        self._framing_bytes = 0
        self._collector = _BodyCollector()
        kind = httptools.HttpResponseParser if response else httptools.HttpRequestParser
        self._parser: httptools.HttpRequestParser | httptools.HttpResponseParser = kind(self._collector)
        self._parser.feed_data(_CHUNKED_RESPONSE if response else _CHUNKED_REQUEST)

    def feed(self, data: bytes) -> bytes:
        """The payload in these bytes."""
        collector = self._collector
        if collector.complete:
            collector.excess = True
            return b""
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError as error:
            if not collector.complete:
                raise BadMessage(str(error)) from None
            collector.excess = True
        parts, collector.parts = collector.parts, []
        payload = b"".join(parts)
        self._payload_bytes += len(payload)
        self._framing_bytes += len(data) - len(payload)
        if self._framing_bytes > _MOST_FRAMING_BYTES + _MOST_FRAMING_SHARE * self._payload_bytes:
            raise BadMessage("the chunks' extensions or the trailer are too long")
        return payload

    @property
    def complete(self) -> bool:
        return self._collector.complete

    @property
    def excess(self) -> bool:
        return self._collector.excess


def chunk(data: bytes) -> bytes:
    """One chunk of Transfer-Encoding: chunked."""
    return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


LAST_CHUNK = b"0\r\n\r\n"
