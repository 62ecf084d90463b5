"""The answer to a form whose file was stored, in the way that the form wants it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING
from urllib.parse import urlencode, urlsplit, urlunsplit

from tidegate.core.xml_writer import DECLARATION, element
from tidegate.gateway.http.http1 import ResponseHead
from tidegate.gateway.requests import expiration
from tidegate.gateway.requests.replies import own_location

if TYPE_CHECKING:
    from tidegate.gateway.requests.exchange import Exchange
    from tidegate.gateway.requests.form_admission import FormTerms

_URL = re.compile(r"[!-~]+")
_PASSED_ON = re.compile(rb"x-amz-(version-id|checksum-.*|server-side-encryption.*)")


def posted(exchange: Exchange, reply: ResponseHead) -> None:
    terms: FormTerms = exchange.parsed
    admission = exchange.admitted
    etag = reply.headers.get(b"etag", b"").decode("latin-1")
    headers = {"ETag": etag, "Location": own_location(exchange), **_passed_on(exchange, reply)}
    redirect = redirect_to(terms.redirect, admission.bucket_name, admission.object_key, etag)
    if redirect:
        exchange.answer(303, {**headers, "Location": redirect}, b"")
    elif terms.status == 201:
        parts = {"Location": headers["Location"], "Bucket": admission.bucket_name, "Key": admission.object_key}
        texts = "".join(element(name, text) for name, text in {**parts, "ETag": etag}.items())
        body = f"{DECLARATION}<PostResponse>{texts}</PostResponse>".encode()
        exchange.answer(201, {**headers, "Content-Type": "application/xml"}, body)
    else:
        exchange.answer(terms.status, headers, b"")


def redirect_to(url: str, bucket: str, key: str, etag: str) -> str:
    """The address with what was stored in its query; "" where it is none that a browser could be sent to."""
    try:
        parts = urlsplit(url) if _URL.fullmatch(url) else urlsplit("")
    except ValueError:
        return ""
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return ""
    added = urlencode({"bucket": bucket, "key": key, "etag": etag})
    return urlunsplit(parts._replace(query=f"{parts.query}&{added}" if parts.query else added))


def _passed_on(exchange: Exchange, reply: ResponseHead) -> dict[str, str]:
    """What the reply to a PutObject would say of the object."""
    found = {
        name.decode("latin-1"): value.decode("latin-1")
        for name, value in reply.headers.items()
        if _PASSED_ON.fullmatch(name)
    }
    line = expiration.of_change(exchange, reply).decode("latin-1")
    if line:
        name, _, value = line.partition(": ")
        found[name] = value
    return found
