"""XML documents from clients and backends: bounded before a parser sees them, without a DTD, and so without entities.

Names count without their namespace. What a client sent and cannot be read is `MalformedXML`; what a backend sent is
`Unavailable`.
"""

from __future__ import annotations

from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from tidegate.core.errors import Unavailable
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, escape

LARGEST_DOCUMENT = 4 * 1024 * 1024
# S3's own documents are six levels deep at the most.
_DEEPEST = 16
# Seven elements per entry of a DeleteObjects request with 1000 entries are 14,000 tags.
MOST_TAGS = 16_000


def request_document(
    body: bytes, root_name: str, *, largest: int = LARGEST_DOCUMENT, most_tags: int = MOST_TAGS
) -> Element:
    if not body.strip():
        raise S3Error("MissingRequestBodyError")
    try:
        root = _parsed(body, largest, most_tags)
    except (ParseError, ValueError, LookupError) as error:
        raise malformed(str(error)) from None
    if local_name(root) != root_name:
        raise malformed(f"the root must be {root_name}")
    return root


def backend_document(body: bytes, most_tags: int = MOST_TAGS) -> Element:
    try:
        return _parsed(body, LARGEST_DOCUMENT, most_tags)
    except (ParseError, ValueError, LookupError) as error:
        raise Unavailable(f"the backend's answer cannot be read as XML: {error}") from None


def _parsed(body: bytes, largest: int, most_tags: int) -> Element:
    if not is_of_bearable_size(body, most_tags, largest):
        raise ValueError("the document is too large")
    parser = XMLParser(target=_WithoutDtd())
    parser.feed(body)
    return parser.close()


class _WithoutDtd(TreeBuilder):
    """Entities, and everything else that makes a document more than it looks, need a DTD."""

    def doctype(self, name: str, public_id: str | None, system_id: str | None) -> None:
        raise ValueError("a document type is not allowed")


def is_of_bearable_size(body: bytes, most_tags: int, largest: int = LARGEST_DOCUMENT) -> bool:
    """An element takes four bytes on the wire and a hundred times that in memory."""
    return len(body) <= largest and body.count(b"<") <= most_tags


def local_name(node: Element) -> str:
    return node.tag.rpartition("}")[2]


def plain_text(node: Element) -> str:
    if len(node):
        raise malformed(f"{local_name(node)} must hold text only")
    return node.text or ""


def document_xml(root: Element) -> bytes:
    """A document that was read, written anew: elements and texts as its reader saw them, and nothing else of it."""
    name = local_name(root)
    return f'{DECLARATION}<{name} xmlns="{NAMESPACE}">{content_xml(root)}</{name}>'.encode()


def content_xml(node: Element, levels: int = _DEEPEST) -> str:
    """What is in an element, written anew."""
    if not len(node):
        return escape(node.text or "")
    if not levels:
        raise malformed("its elements are nested too deeply")
    return "".join(f"<{local_name(each)}>{content_xml(each, levels - 1)}</{local_name(each)}>" for each in node)


def malformed(why: str) -> S3Error:
    return S3Error("MalformedXML", f"The XML you provided was not well-formed or did not validate: {why}.")
