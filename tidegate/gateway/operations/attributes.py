"""The checksum among an object's attributes: the backend shows it with the object's head alone."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any
from xml.etree.ElementTree import Element, SubElement

from tidegate.core.documents import backend_document, document_xml, local_name
from tidegate.core.upload_checksums import COMPOSITE, FULL_OBJECT, shown
from tidegate.gateway.operations.stored_objects import customer_key
from tidegate.gateway.requests.forwarding import ask_signed, object_path, version_query

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_ATTRIBUTES = b"x-amz-object-attributes"
_MODE = (b"x-amz-checksum-mode", b"ENABLED")


def look_up_checksum(exchange: Exchange, admission: Admission) -> Coroutine[Any, Any, None] | None:
    """What is to be done before attributes are shown that the checksum is one of."""
    asked = admission.head.headers.get(_ATTRIBUTES, b"")
    return _look_up(exchange, admission) if b"Checksum" in (name.strip() for name in asked.split(b",")) else None


async def _look_up(exchange: Exchange, admission: Admission) -> None:
    gateway = exchange.gateway
    admission.pool = await gateway.backends.awake(admission.pool)
    path, query = object_path(admission.bucket_name, admission.object_key), version_query(admission.version_id)
    headers = [_MODE, *customer_key(admission.head.headers)]
    reply = await ask_signed(gateway, admission.pool, b"HEAD", path, query, headers=headers)
    exchange.noted = reply.head.headers if reply.head.status == 200 else None
    exchange.forward()


def with_checksum(exchange: Exchange, body: bytes) -> bytes:
    found = shown(exchange.noted) if exchange.noted is not None else None
    if found is None:
        return body
    root = backend_document(body)
    if any(local_name(node) == "Checksum" for node in root):
        return body
    name, value = found
    stated = exchange.noted.get(b"x-amz-checksum-type", b"").decode("latin-1")
    checksum = Element("Checksum")
    SubElement(checksum, name).text = value
    SubElement(checksum, "ChecksumType").text = stated or (COMPOSITE if "-" in value else FULL_OBJECT)
    root.insert(1 if len(root) and local_name(root[0]) == "ETag" else 0, checksum)
    return document_xml(root)
