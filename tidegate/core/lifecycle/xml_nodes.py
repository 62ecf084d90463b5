"""Reading the document of a configuration of rules element by element, in the manner of a schema.

What breaks the schema is `MalformedXML`; what is well-formed and makes no sense is for `rule_checks` to say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import UTC, datetime
from xml.etree.ElementTree import Element

from tidegate.core.documents import malformed, request_document

LARGEST_DOCUMENT = 2 * 1024 * 1024
# A thousand rules of some fifty elements each.
_MOST_TAGS = 120_000
_LARGEST_INTEGER = 2**63 - 1
_DATE = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?)?", re.ASCII)


class Node:
    """An element. Names count without their namespace."""

    def __init__(self, element: Element) -> None:
        self._element = element
        self.name = element.tag.rpartition("}")[2]

    def children(self, *, single: Iterable[str] = (), repeated: Iterable[str] = ()) -> dict[str, list[Node]]:
        """The children by name. Any other name is refused, and a second one of those in `single`."""
        single, allowed = set(single), {*single, *repeated}
        found: dict[str, list[Node]] = {}
        for child in map(Node, self._element):
            if child.name not in allowed:
                raise malformed(f"{child.name} does not belong into {self.name}")
            if child.name in single and child.name in found:
                raise malformed(f"{self.name} may have only one {child.name}")
            found.setdefault(child.name, []).append(child)
        return found

    def text(self) -> str:
        """As it stands: spaces in a prefix or a tag count."""
        if len(self._element):
            raise malformed(f"{self.name} must hold text only")
        return self._element.text or ""

    def word(self) -> str:
        return self.text().strip()

    def integer(self) -> int:
        word = self.word()
        if not re.fullmatch(r"[+-]?[0-9]{1,19}", word) or abs(int(word)) > _LARGEST_INTEGER:
            raise malformed(f"{self.name} must be an integer")
        return int(word)

    def boolean(self) -> bool:
        word = self.word().lower()
        if word not in ("true", "false", "1", "0"):
            raise malformed(f"{self.name} must be true or false")
        return word in ("true", "1")

    def moment(self) -> datetime:
        """An ISO 8601 date, with or without a time of day; UTC where no zone is given."""
        word = self.word()
        try:
            if not _DATE.fullmatch(word):
                raise ValueError("unknown form")
            moment = datetime.fromisoformat(word)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
        except (ValueError, OverflowError):
            raise malformed(f"{self.name} must be a date such as 2030-01-31T00:00:00Z") from None


def read_document(body: bytes, root_name: str) -> Node:
    return Node(read_element(body, root_name))


def read_element(body: bytes, root_name: str) -> Element:
    """The same as it was parsed, for who writes it again."""
    return request_document(body, root_name, largest=LARGEST_DOCUMENT, most_tags=_MOST_TAGS)
