"""What stands in S3's XML: the bodies of requests that Tidegate must understand, and the answers of backends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple
from urllib.parse import parse_qsl
from xml.etree.ElementTree import Element

from tidegate.core.documents import backend_document, local_name, malformed, plain_text, request_document
from tidegate.core.errors import Unavailable
from tidegate.core.s3errors import S3Error
from tidegate.core.targets import LONGEST_KEY
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element

MOST_DELETES = 1000
MOST_OBJECT_TAGS = 10
MOST_BUCKET_TAGS = 50
# The last two are Tidegate's own; the others are S3's.
_ENTRY_FIELDS = ("Key", "VersionId", "ETag", "LastModifiedTime", "Size", "UnmodifiedSince", "Noncurrent")
_CHECKSUM_FIELDS = ("ChecksumCRC32", "ChecksumCRC32C", "ChecksumCRC64NVME", "ChecksumSHA1", "ChecksumSHA256")
_PART_FIELDS = ("PartNumber", "ETag", *_CHECKSUM_FIELDS)
MOST_PARTS = 10_000
# Number, ETag and two checksums.
_MOST_PART_TAGS = 10 * MOST_PARTS + 10

Tags = tuple[tuple[str, str], ...]


class DeleteEntry(NamedTuple):
    """One object of a DeleteObjects request, with the identity that the client saw (None: any). With `noncurrent` the
    version is meant only as long as it is not the current one of its key."""

    key: str
    version_id: str = ""
    etag: str | None = None
    last_modified: str | None = None
    size: int | None = None
    unmodified_since: str | None = None
    noncurrent: bool = False


@dataclass(frozen=True, slots=True)
class DeleteRequest:
    entries: tuple[DeleteEntry, ...]
    quiet: bool


class Deleted(NamedTuple):
    key: str
    version_id: str = ""
    marker: bool = False
    marker_version_id: str = ""


class DeleteFailure(NamedTuple):
    key: str
    version_id: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class DeleteResult:
    deleted: tuple[Deleted, ...]
    failures: tuple[DeleteFailure, ...]


class CompletedPart(NamedTuple):
    """A part of an upload that is completed, with its ETag and checksums by their names in the document."""

    number: int
    fields: dict[str, str]


class Reply(NamedTuple):
    """A backend's small answer: the root's name (Error for a failure) and the texts of its children."""

    root: str
    fields: dict[str, str]


def parse_delete_request(body: bytes) -> DeleteRequest:
    root = request_document(body, "Delete")
    entries: list[DeleteEntry] = []
    quiet: str | None = None
    for child in root:
        if local_name(child) == "Object":
            entries.append(_delete_entry(child))
        elif local_name(child) == "Quiet" and quiet is None:
            quiet = plain_text(child).strip().lower()
        else:
            raise malformed(f"{local_name(child)} does not belong here")
    if not 1 <= len(entries) <= MOST_DELETES:
        raise malformed(f"Delete must have 1 to {MOST_DELETES} objects")
    if quiet not in (None, "true", "false"):
        raise malformed("Quiet must be true or false")
    return DeleteRequest(tuple(entries), quiet == "true")


def _delete_entry(node: Element) -> DeleteEntry:
    fields = _fields(node, _ENTRY_FIELDS)
    key = fields.get("Key", "")
    if not key or len(key.encode()) > LONGEST_KEY:
        raise malformed(f"Key must have 1 to {LONGEST_KEY} bytes")
    size = fields.get("Size")
    if size is not None and not (size.isascii() and size.isdigit() and len(size) < 16):
        raise malformed("Size must be a number of bytes")
    noncurrent = fields.get("Noncurrent", "false")
    if noncurrent not in ("true", "false") or (noncurrent == "true" and not fields.get("VersionId")):
        raise malformed("Noncurrent must be true or false, and belongs to a version")
    return DeleteEntry(
        key,
        fields.get("VersionId", ""),
        fields.get("ETag"),
        fields.get("LastModifiedTime"),
        None if size is None else int(size),
        fields.get("UnmodifiedSince"),
        noncurrent == "true",
    )


def parse_create_bucket(body: bytes) -> str:
    """The location constraint of a CreateBucket request; "" when it has none, or no body at all."""
    if not body.strip():
        return ""
    root = request_document(body, "CreateBucketConfiguration")
    return next((plain_text(child).strip() for child in root if local_name(child) == "LocationConstraint"), "")


def parse_versioning(body: bytes) -> str:
    """The status of a PutBucketVersioning request: Enabled or Suspended."""
    root = request_document(body, "VersioningConfiguration")
    status = _fields(root, ("Status", "MfaDelete")).get("Status", "")
    if status not in ("Enabled", "Suspended"):
        raise S3Error("MalformedXML", "Status must be Enabled or Suspended.")
    return status


def parse_tagging(body: bytes, most: int = MOST_OBJECT_TAGS) -> Tags:
    """The tags of a tagging request or of the answer to GetObjectTagging."""
    root = request_document(body, "Tagging")
    sets = list(root)
    if len(sets) != 1 or local_name(sets[0]) != "TagSet":
        raise malformed("Tagging must have one TagSet")
    tags = []
    for node in sets[0]:
        if local_name(node) != "Tag":
            raise malformed(f"{local_name(node)} does not belong here")
        fields = _fields(node, ("Key", "Value"))
        if len(fields) != 2:
            raise malformed("a Tag must have a Key and a Value")
        tags.append((fields["Key"], fields["Value"]))
    return _checked_tags(tags, most)


def parse_tagging_header(value: bytes) -> Tags:
    """The header x-amz-tagging of an upload or copy: k1=v1&k2=v2, URL-encoded."""
    try:
        pairs = parse_qsl(
            value.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
        )
    except ValueError:
        raise S3Error(
            "InvalidArgument",
            "The header 'x-amz-tagging' shall be encoded as UTF-8 then URLEncoded URL query parameters.",
        ) from None
    return _checked_tags(pairs, MOST_OBJECT_TAGS)


def _checked_tags(tags: list[tuple[str, str]], most: int) -> Tags:
    if len(tags) > most:
        raise S3Error("InvalidTag", f"Tags cannot be greater than {most}")
    if len({key for key, _ in tags}) != len(tags):
        raise S3Error("InvalidTag", "Cannot provide multiple Tags with the same key")
    for key, value in tags:
        if not 1 <= len(key) <= 128:
            raise S3Error("InvalidTag", "The TagKey you have provided must have 1 to 128 characters")
        if len(value) > 256:
            raise S3Error("InvalidTag", "The TagValue you have provided must have at most 256 characters")
    return tuple(tags)


def parse_reply(body: bytes) -> Reply:
    """CopyObjectResult, CompleteMultipartUploadResult, InitiateMultipartUploadResult and their like; also the
    Error that can stand in a reply of status 200."""
    root = backend_document(body)
    return Reply(local_name(root), {local_name(child): child.text or "" for child in root})


def parse_delete_result(body: bytes) -> DeleteResult:
    root = backend_document(body)
    if local_name(root) != "DeleteResult":
        raise Unavailable(f"the backend answered a multi-object delete with {local_name(root)}")
    deleted: list[Deleted] = []
    failures: list[DeleteFailure] = []
    for node in root:
        texts = {local_name(child): child.text or "" for child in node}
        key, version_id = texts.get("Key", ""), texts.get("VersionId", "")
        if local_name(node) == "Deleted":
            marker = texts.get("DeleteMarker", "").strip().lower() == "true"
            deleted.append(Deleted(key, version_id, marker, texts.get("DeleteMarkerVersionId", "")))
        elif local_name(node) == "Error":
            failures.append(DeleteFailure(key, version_id, texts.get("Code", ""), texts.get("Message", "")))
    return DeleteResult(tuple(deleted), tuple(failures))


def delete_result_xml(deleted: Iterable[Deleted], failures: Iterable[DeleteFailure]) -> bytes:
    parts = [DECLARATION, f'<DeleteResult xmlns="{NAMESPACE}">']
    for entry in deleted:
        parts += ["<Deleted>", element("Key", entry.key)]
        parts += [element("VersionId", entry.version_id)] if entry.version_id else []
        parts += [element("DeleteMarker", "true")] if entry.marker else []
        parts += [element("DeleteMarkerVersionId", entry.marker_version_id)] if entry.marker_version_id else []
        parts.append("</Deleted>")
    for failure in failures:
        parts += ["<Error>", element("Key", failure.key)]
        parts += [element("VersionId", failure.version_id)] if failure.version_id else []
        parts += [element("Code", failure.code), element("Message", failure.message), "</Error>"]
    parts.append("</DeleteResult>")
    return "".join(parts).encode()


def read_document(body: bytes, root_name: str) -> Element:
    """The body of a request that only its backend needs to understand: well-formed, with the right root."""
    return request_document(body, root_name)


def parse_completed_parts(body: bytes) -> tuple[CompletedPart, ...]:
    """CompleteMultipartUpload: up to 10,000 parts in ascending order of their numbers."""
    if not body.strip():
        raise malformed("there must be at least one Part")
    root = request_document(body, "CompleteMultipartUpload", most_tags=_MOST_PART_TAGS)
    parts = []
    last = 0
    for child in root:
        if local_name(child) != "Part":
            raise malformed(f"{local_name(child)} does not belong here")
        fields = _fields(child, _PART_FIELDS)
        number = fields.pop("PartNumber", "").strip()
        if not (number.isascii() and number.isdigit() and len(number) <= 5 and 1 <= int(number) <= MOST_PARTS):
            raise malformed(f"PartNumber must be a number from 1 to {MOST_PARTS}")
        if int(number) <= last:
            raise S3Error("InvalidPartOrder")
        last = int(number)
        parts.append(CompletedPart(last, fields))
    if not parts:
        raise malformed("there must be at least one Part")
    return tuple(parts)


def completed_parts_xml(parts: Iterable[CompletedPart]) -> bytes:
    entries = "".join(
        "<Part>"
        + element("PartNumber", str(part.number))
        + "".join(element(name, value) for name, value in part.fields.items())
        + "</Part>"
        for part in parts
    )
    return f'{DECLARATION}<CompleteMultipartUpload xmlns="{NAMESPACE}">{entries}</CompleteMultipartUpload>'.encode()


def tagging_xml(tags: Tags) -> bytes:
    entries = "".join(f"<Tag>{element('Key', key)}{element('Value', value)}</Tag>" for key, value in tags)
    return f'{DECLARATION}<Tagging xmlns="{NAMESPACE}"><TagSet>{entries}</TagSet></Tagging>'.encode()


def versioning_xml(status: str) -> bytes:
    body = f'<VersioningConfiguration xmlns="{NAMESPACE}">{element("Status", status)}</VersioningConfiguration>'
    return (DECLARATION + body).encode()


def delete_request_xml(entries: Iterable[DeleteEntry], *, with_identities: bool = False) -> bytes:
    """A DeleteObjects request that asks for the full report. Times and sizes, which only a gateway compares, are
    written if it is to be sent to one."""
    parts = [DECLARATION, f'<Delete xmlns="{NAMESPACE}">']
    for entry in entries:
        parts += ["<Object>", element("Key", entry.key)]
        parts += [element("VersionId", entry.version_id)] if entry.version_id else []
        parts += [element("ETag", entry.etag)] if entry.etag is not None else []
        if with_identities:
            parts += [element("LastModifiedTime", entry.last_modified)] if entry.last_modified is not None else []
            parts += [element("Size", str(entry.size))] if entry.size is not None else []
            parts += [element("UnmodifiedSince", entry.unmodified_since)] if entry.unmodified_since is not None else []
            parts += [element("Noncurrent", "true")] if entry.noncurrent else []
        parts.append("</Object>")
    parts.append("<Quiet>false</Quiet></Delete>")
    return "".join(parts).encode()


def _fields(node: Element, known: tuple[str, ...]) -> dict[str, str]:
    fields: dict[str, str] = {}
    for child in node:
        name = local_name(child)
        if name not in known or name in fields:
            raise malformed(f"{name} does not belong here, or stands here twice")
        fields[name] = plain_text(child)
    return fields
