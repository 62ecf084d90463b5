"""The checksums of uploads in parts: what an upload was begun with, and whether its completion agrees with it.

A composite checksum is that of the parts' checksums, written with the number of parts (`…-3`); one of the full object
is that of its data. Which of them an upload has is settled when it begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from tidegate.core import checksums
from tidegate.core.s3errors import S3Error
from tidegate.core.xml import CompletedPart

COMPOSITE, FULL_OBJECT = "COMPOSITE", "FULL_OBJECT"
_FIELD = "Checksum"


class UploadChecksum(NamedTuple):
    """What an upload was begun with: `CRC32` and its like, and the type."""

    algorithm: str
    type: str

    def to_text(self) -> str:
        return f"{self.algorithm} {self.type}"

    @classmethod
    def from_text(cls, text: str) -> UploadChecksum:
        algorithm, _, kind = text.partition(" ")
        return cls(algorithm, kind)


class PartName(NamedTuple):
    """A part as its uploader knows it: of several parts with one number the ETag tells which is meant."""

    number: int
    etag: str


# The checksums of parts, by their names in documents.
PartChecksums = Mapping[PartName, tuple[str, str]]


def shown(headers: Mapping[bytes, bytes]) -> tuple[str, str] | None:
    """The checksum in a backend's reply, by its name in documents."""
    for name in checksums.HEADERS:
        if name in headers:
            return field_name(name), headers[name].decode("latin-1")
    return None


def field_name(header: bytes) -> str:
    return _FIELD + header.removeprefix(checksums.PREFIX).decode().upper()


def completion_header(
    upload: UploadChecksum | None, headers: Mapping[bytes, bytes], parts: int
) -> tuple[bytes, bytes] | None:
    """The checksum that a completion states about its object, as the backend compares it. Raises `S3Error` where it
    could not be compared: it would be taken for verified."""
    stated_type = headers.get(b"x-amz-checksum-type", b"").decode("latin-1")
    if upload is not None and stated_type not in ("", upload.type):
        raise S3Error(
            "InvalidRequest",
            f"The upload was created using the {upload.type} checksum mode. "
            "The complete request must use the same checksum mode.",
        )
    stated = checksums.stated(headers)
    if stated is None:
        return None
    name, value = stated
    if upload is None:
        raise S3Error(
            "InvalidRequest",
            f"The upload was created without a checksum algorithm: {name.decode()} cannot be verified.",
        )
    if field_name(name) != _FIELD + upload.algorithm:
        raise S3Error(
            "InvalidRequest",
            f"The upload was created using the {upload.algorithm} checksum algorithm, not that of {name.decode()}.",
        )
    return name, _compared(name, value.strip(), upload, parts)


def _compared(name: bytes, value: bytes, upload: UploadChecksum, parts: int) -> bytes:
    digest, dash, count = value.partition(b"-")
    invalid = S3Error("InvalidRequest", f"Value for {name.decode()} header is invalid.")
    if dash and (upload.type != COMPOSITE or not count.isdigit()):
        raise invalid
    if len(digest) != checksums.encoded_size(name) or not checksums.decoded(digest):
        raise invalid
    if upload.type != COMPOSITE:
        return digest
    if dash and count != b"%d" % parts:
        raise S3Error("BadDigest", f"The {name.decode()} you specified is not that of {parts} parts.")
    return digest + b"-%d" % parts


def check_parts(parts: Iterable[CompletedPart], noted: PartChecksums, *, is_certain: bool) -> None:
    """Each checksum that a completion states about a part must be the one that the part came with. `is_certain`: one
    that was not noted down is refused, since nobody else compares it."""
    for part in parts:
        found = noted.get(PartName(part.number, part.fields.get("ETag", "").strip('"')))
        for name, value in part.fields.items():
            if not name.startswith(_FIELD):
                continue
            if (found != (name, value)) if found is not None else is_certain:
                raise S3Error(
                    "InvalidPart", f"The {name} of part {part.number} is not the one that the part was uploaded with."
                )


def check_size(stated: bytes, parts: Iterable[CompletedPart], sizes: Mapping[PartName, int]) -> None:
    """The header `x-amz-mp-object-size`. The backend refuses parts that do not exist."""
    names = [PartName(part.number, part.fields.get("ETag", "").strip('"')) for part in parts]
    if not all(name in sizes for name in names):
        return
    size = sum(sizes[name] for name in names)
    if stated.strip() != b"%d" % size:
        raise S3Error("InvalidRequest", f"The object has {size} bytes, which is not what x-amz-mp-object-size says.")
