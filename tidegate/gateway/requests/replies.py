"""What clients see of a backend's replies where that is not what the backend wrote."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import quote

from tidegate.core.xml_writer import element

if TYPE_CHECKING:
    from tidegate.gateway.http.backend import Reply
    from tidegate.gateway.requests.exchange import Exchange

_LOCATION = re.compile(rb"<Location>[^<]*</Location>")


def repeat(exchange: Exchange, reply: Reply) -> None:
    """The backend's answer in its own words, unless it is that it has trouble."""
    if reply.head.status >= 500 and reply.head.status != 501:
        exchange.backend_failed(f"the backend answered with status {reply.head.status}")
        return
    headers = {"Content-Type": reply.head.headers.get(b"content-type", b"application/xml").decode("latin-1")}
    exchange.answer(reply.head.status, headers, reply.body)


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
