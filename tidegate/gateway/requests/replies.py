"""What clients see of a backend's replies where that is not what the backend wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidegate.core.placements import STUB_HEADER
from tidegate.core.xml_writer import element
from tidegate.gateway.http.backend import Reply, whole_body
from tidegate.gateway.http.http1 import ResponseHead

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange

_LOCATION = re.compile(rb"<Location>[^<]*</Location>")


def is_stub(head: ResponseHead) -> bool:
    """Whether the backend shows the stub of an object that was moved, which clients never see."""
    return not head.length and head.status in (200, 206) and STUB_HEADER.encode() in head.headers


def repeat(exchange: Exchange, reply: Reply) -> None:
    """The backend's answer in its own words, unless it is that it has trouble."""
    if reply.head.status >= 500 and reply.head.status != 501:
        exchange.backend_failed(f"the backend answered with status {reply.head.status}")
        return
    headers = {"Content-Type": reply.head.headers.get(b"content-type", b"application/xml").decode("latin-1")}
    exchange.answer(reply.head.status, headers, reply.body)


def is_dechunked(exchange: Exchange, head: ResponseHead) -> bool:
    """Whether the client gets a chunked body without its chunks, which HTTP/1.0 does not know."""
    return head.chunked and not exchange.head.is_1_1


def reply_head(exchange: Exchange, head: ResponseHead, *, keep_alive: bool, length: int | None = None) -> bytes:
    """The head of a backend's reply as the client gets it. `length` is that of a body which was written anew."""
    more = exchange.admitted.operation.reply_headers
    added = more(exchange, head) if more is not None else b""
    cors = exchange.cors
    dechunks = length is None and is_dechunked(exchange, head)
    if keep_alive and not dechunks and not added and not cors and head.is_plain and length is None:
        return head.raw
    unwanted = {b"connection", b"keep-alive"}
    if dechunks:
        unwanted.add(b"transfer-encoding")
    if length is not None:
        unwanted.update((b"content-length", b"transfer-encoding"))
    lines = [line for line in head.raw[:-4].split(b"\r\n") if not _is_unwanted(line, unwanted)]
    lines += [f"{name}: {value}".encode("latin-1") for name, value in cors.items()]
    if length is not None:
        lines.append(b"Content-Length: %d" % length)
    if added:
        lines.append(added)
    if not keep_alive:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def rewritten(exchange: Exchange, head: ResponseHead, body: bytes, *, keep_alive: bool) -> tuple[bytes, bytes]:
    """Head and body of a reply that was withheld, as the client gets them."""
    rewrite = exchange.admitted.operation.reply_body if head.status == 200 else None
    if rewrite is not None:
        written = rewrite(exchange, whole_body(head, [body]))
        return reply_head(exchange, head, keep_alive=keep_alive, length=len(written)), written
    if is_dechunked(exchange, head):
        body = whole_body(head, [body])
    return reply_head(exchange, head, keep_alive=keep_alive), body


def _is_unwanted(line: bytes, unwanted: set[bytes]) -> bool:
    name = line.partition(b":")[0].lower()
    return name in unwanted or name.startswith(b"access-control-")


def with_own_location(exchange: Exchange, body: bytes) -> bytes:
    """The address of an object as its client knows it: the backend was asked under another name."""
    location = element("Location", own_location(exchange)).encode()
    return _LOCATION.sub(lambda _: location, body, count=1)


def own_location(exchange: Exchange) -> str:
    admission = exchange.admitted
    scheme = "https" if exchange.gateway.settings.gateway.tls_certificate else "http"
    host = admission.head.headers.get(b"host", b"").decode("latin-1")
    where = quote(admission.object_key, safe="/~")
    if not admission.is_virtual_hosted:
        where = f"{admission.bucket_name}/{where}"
    return f"{scheme}://{host}/{where}"
