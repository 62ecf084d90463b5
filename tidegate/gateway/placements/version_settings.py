"""Tags, attributes and locks of versions that were moved: told and changed in their records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from tidegate.core import xml
from tidegate.core.events import EventKind
from tidegate.core.placements import Placement, of_version
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element
from tidegate.gateway.changes import event_builder
from tidegate.gateway.placements import records
from tidegate.gateway.placements.reads import is_hidden, shown_headers

if TYPE_CHECKING:
    from tidegate.gateway.requests.admission import Admission
    from tidegate.gateway.requests.exchange import Exchange

_XML = {"Content-Type": "application/xml"}
_ASKED = b"x-amz-object-attributes"
_CHECKSUM = "x-amz-checksum-"


async def get_tagging(exchange: Exchange, admission: Admission) -> None:
    record = await _found(exchange, admission)
    if record is None:
        await exchange.proceed()
    else:
        exchange.answer(200, {**_XML, **_version(admission, record)}, xml.tagging_xml(record.tags))


async def change_tagging(exchange: Exchange, admission: Admission) -> None:
    """PUT and DELETE: the tags that the version has from now on were read from the body, or are none."""
    change = exchange.change
    await change.lock([admission.object_key])
    record = await _found(exchange, admission)
    if record is None:
        await exchange.proceed()
        return
    change.open_intent(admission)
    tags = exchange.parsed
    await records.put(exchange.gateway, replace(record, tags=tags), record)
    event = event_builder.event(exchange, EventKind.TAGGING, version_id=_logged_version(admission, record), tags=tags)
    change.unlock()
    await change.log([event])
    change.close_intent()
    exchange.answer(204 if admission.operation.method == "DELETE" else 200, _version(admission, record), b"")


async def get_attributes(exchange: Exchange, admission: Admission) -> None:
    record = await _found(exchange, admission)
    if record is None:
        await exchange.proceed()
        return
    asked = {name.strip() for name in admission.head.headers.get(_ASKED, b"").decode("latin-1").split(",")}
    parts = []
    if "ETag" in asked:
        parts.append(element("ETag", record.etag))
    if "Checksum" in asked:
        parts += _checksum(record)
    if "ObjectParts" in asked and record.parts:
        parts.append(f"<ObjectParts>{element('TotalPartsCount', str(len(record.parts)))}</ObjectParts>")
    if "StorageClass" in asked:
        parts.append(element("StorageClass", record.storage_class or "STANDARD"))
    if "ObjectSize" in asked:
        parts.append(element("ObjectSize", str(record.size)))
    if not parts:
        raise S3Error("InvalidArgument", "No object attributes that exist were asked for.")
    shown = dict(shown_headers(record, with_version=admission.has_versions))
    told = ("Last-Modified", "x-amz-version-id")
    headers: dict[str, str] = {name: shown[name] for name in told if name in shown}
    body = (
        f'{DECLARATION}<GetObjectAttributesResponse xmlns="{NAMESPACE}">{"".join(parts)}</GetObjectAttributesResponse>'
    )
    exchange.answer(200, {**_XML, **headers}, body.encode())


async def at_stub(exchange: Exchange, admission: Admission) -> None:
    """Locks and holds are the stub's."""
    record = await _found(exchange, admission)
    if record is not None and admission.version_id:
        if not record.has_stub:
            raise S3Error("NotImplemented", "A noncurrent version that was moved has no object lock.")
        if record.stub_id:
            admission.parameters = {**admission.parameters, "versionId": record.stub_id}
    await exchange.proceed()


async def _found(exchange: Exchange, admission: Admission) -> Placement | None:
    assert admission.bucket is not None
    found = await records.of_key(exchange.gateway, admission.bucket.uid, admission.object_key)
    if is_hidden(found, admission.version_id):
        raise S3Error("NoSuchVersion", fields={"Key": admission.object_key, "VersionId": admission.version_id})
    return of_version(found, admission.version_id)


def _logged_version(admission: Admission, record: Placement) -> str:
    return record.version_id if admission.has_versions else admission.version_id


def _version(admission: Admission, record: Placement) -> dict[str, str]:
    return {"x-amz-version-id": record.version_id} if admission.has_versions else {}


def _checksum(record: Placement) -> list[str]:
    values = {name.lower(): value for name, value in record.headers if name.lower().startswith(_CHECKSUM)}
    kind = values.pop(_CHECKSUM + "type", "")
    texts = [
        element("Checksum" + name.removeprefix(_CHECKSUM).upper(), value)
        for name, value in values.items()
        if name != _CHECKSUM + "algorithm"
    ]
    if not texts:
        return []
    return [f"<Checksum>{''.join(texts)}{element('ChecksumType', kind) if kind else ''}</Checksum>"]
