"""Lifecycle configurations as JSON, in the form of the AWS command line: turned into S3's XML, and judged as such.

So one parser says what is allowed, with the same codes whichever way a configuration was written.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tidegate.core.documents import malformed
from tidegate.core.lifecycle.rules import STORAGE_CLASSES, RuleSet
from tidegate.core.lifecycle.rules_xml import parse_lifecycle, transition_minimum
from tidegate.core.lifecycle.xml_nodes import LARGEST_DOCUMENT
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import element

_MINIMUM = "TransitionDefaultMinimumObjectSize"
# Lists, whose XML has one element for each member.
_MEMBERS = {
    "Rules": "Rule",
    "Tags": "Tag",
    "Transitions": "Transition",
    "NoncurrentVersionTransitions": "NoncurrentVersionTransition",
}


def parse_either(
    document: bytes,
    *,
    storage_classes: Iterable[str] = STORAGE_CLASSES,
    minimum: str | None = None,
    strict: bool = False,
) -> RuleSet:
    """A configuration in XML or JSON. `minimum` is what PUT has in x-amz-transition-default-minimum-object-size; in
    JSON it may also stand beside the rules, as the answer to GET has it."""
    chosen = transition_minimum(minimum)
    if document.lstrip()[:1] == b"{":
        document, stated = _as_xml(document)
        chosen = chosen if minimum is not None or stated is None else transition_minimum(stated)
    return parse_lifecycle(document, storage_classes=storage_classes, minimum=chosen, strict=strict)


def _as_xml(document: bytes) -> tuple[bytes, str | None]:
    if len(document) > LARGEST_DOCUMENT:
        raise malformed("the document is too large")
    try:
        values = json.loads(document)
    except (ValueError, RecursionError) as error:
        raise S3Error("MalformedXML", f"The JSON you provided was not well-formed: {error}.") from None
    stated = values.pop(_MINIMUM, None)
    try:
        content = "".join(_written(name, value) for name, value in values.items())
    except RecursionError:
        raise malformed("it is nested too deeply") from None
    return f"<LifecycleConfiguration>{content}</LifecycleConfiguration>".encode(), stated if stated is None else str(
        stated
    )


def _written(name: str, value: Any) -> str:
    """What does not belong there is written, too: the parser then tells where it stands."""
    if not name.isidentifier() or not name.isascii():
        raise malformed(f"{name!r} is not the name of an element")
    if isinstance(value, list):
        member = _MEMBERS.get(name)
        if member is None:
            raise malformed(f"{name} is not a list")
        return "".join(_written(member, item) for item in value)
    if name in _MEMBERS:
        raise malformed(f"{name} must be a list")
    if isinstance(value, dict):
        return f"<{name}>{''.join(_written(inner, item) for inner, item in value.items())}</{name}>"
    if isinstance(value, bool):
        return element(name, "true" if value else "false")
    return element(name, "" if value is None else str(value))
