"""A backend's list of an upload's parts: read, and completed with what the backend does not tell."""

from __future__ import annotations

from collections.abc import Mapping
from xml.etree.ElementTree import Element, SubElement

from tidegate.core.documents import backend_document, document_xml, local_name
from tidegate.core.errors import Unavailable
from tidegate.core.upload_checksums import PartChecksums, PartName, UploadChecksum

# Ten thousand parts of four elements.
_MOST_TAGS = 101_000


def part_sizes(body: bytes) -> Mapping[PartName, int]:
    return {name: int(node.findtext(_space(node) + "Size", "0")) for name, node in _parts(_root(body))}


def with_checksums(body: bytes, upload: UploadChecksum | None, noted: PartChecksums) -> bytes:
    """The list with the checksums of the upload and of its parts."""
    if upload is None and not noted:
        return body
    root = _root(body)
    for name, node in _parts(root):
        if name in noted:
            field, value = noted[name]
            SubElement(node, field).text = value
    if upload is not None:
        SubElement(root, "ChecksumAlgorithm").text = upload.algorithm
        SubElement(root, "ChecksumType").text = upload.type
    return document_xml(root)


def _root(body: bytes) -> Element:
    root = backend_document(body, _MOST_TAGS)
    if local_name(root) != "ListPartsResult":
        raise Unavailable(f"the backend answered a list of parts with {local_name(root)}")
    return root


def _parts(root: Element) -> list[tuple[PartName, Element]]:
    found = [node for node in root if local_name(node) == "Part"]
    return [(_name(node), node) for node in found]


def _name(node: Element) -> PartName:
    space = _space(node)
    number, etag = node.findtext(space + "PartNumber", ""), node.findtext(space + "ETag", "")
    if not (number.isascii() and number.isdigit()):
        raise Unavailable(f"the backend's list of parts has a number that is none: {number!r}")
    return PartName(int(number), etag.strip('"'))


def _space(node: Element) -> str:
    return node.tag[: -len(local_name(node))]
