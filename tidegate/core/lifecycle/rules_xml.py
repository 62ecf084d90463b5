"""The body of PUT bucket lifecycle: from XML to rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from tidegate.core.documents import malformed
from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rule_checks import check_rules
from tidegate.core.lifecycle.rules import (
    STORAGE_CLASSES,
    Action,
    ActionKind,
    Filter,
    FilterForm,
    Rule,
    RuleSet,
    TransitionMinimum,
)
from tidegate.core.lifecycle.xml_nodes import Node, read_document
from tidegate.core.s3errors import S3Error

_SINGLE_PREDICATES = ("Prefix", "ObjectSizeGreaterThan", "ObjectSizeLessThan")
_SINGLE = ("ID", "Status", "Prefix", "Filter", "Expiration", "NoncurrentVersionExpiration")
_ABORT = "AbortIncompleteMultipartUpload"
_REPEATED = ("Transition", "NoncurrentVersionTransition")


def parse_lifecycle(
    body: bytes,
    *,
    storage_classes: Iterable[str] = STORAGE_CLASSES,
    minimum: TransitionMinimum = TransitionMinimum.ALL_CLASSES,
    strict: bool = False,
) -> RuleSet:
    """The configuration, checked; an `S3Error` with S3's code where it breaks a rule.

    Storage classes come from the warmest to the coldest; a transition can name no other. `strict` refuses what S3
    refuses and real clients and trials nevertheless send: see `rule_checks`, and several predicates side by side in a
    Filter, which otherwise are read as if And stood around them.
    """
    classes = tuple(storage_classes)
    root = read_document(body, "LifecycleConfiguration")
    rules = tuple(_rule(node, classes, strict=strict) for node in root.children(repeated=("Rule",)).get("Rule", []))
    if not rules:
        raise malformed("there must be at least one Rule")
    check_rules(rules, storage_classes=classes, strict=strict)
    return RuleSet(_with_ids(rules), minimum, _text(body))


def transition_minimum(header: str | None) -> TransitionMinimum:
    """The value of x-amz-transition-default-minimum-object-size; S3's default where the header is missing."""
    if header is None:
        return TransitionMinimum.ALL_CLASSES
    try:
        return TransitionMinimum(header.strip())
    except ValueError:
        allowed = " or ".join(TransitionMinimum)
        message = f"x-amz-transition-default-minimum-object-size must be {allowed}."
        raise S3Error("InvalidArgument", message) from None


def _rule(node: Node, storage_classes: tuple[str, ...], *, strict: bool) -> Rule:
    parts = node.children(single=(*_SINGLE, _ABORT), repeated=_REPEATED)
    status = parts["Status"][0].word() if "Status" in parts else ""
    if status not in ("Enabled", "Disabled"):
        raise malformed("the Status of a Rule must be Enabled or Disabled")
    if ("Prefix" in parts) == ("Filter" in parts):
        raise malformed("a Rule must have either a Filter or, in the old form, a Prefix")
    if "Prefix" in parts:
        rule_filter = Filter(prefix=parts["Prefix"][0].text(), form=FilterForm.RULE_PREFIX)
    else:
        rule_filter = read_filter(parts["Filter"][0], strict=strict)
    actions = tuple(_actions(parts, storage_classes))
    if not actions and "Expiration" not in parts:
        raise S3Error("InvalidRequest", "At least one action needs to be specified in a rule.")
    rule_id = parts["ID"][0].text() if "ID" in parts else ""
    return Rule(rule_id, status == "Enabled", rule_filter, actions, id_generated=not rule_id)


def read_filter(node: Node, *, strict: bool) -> Filter:
    """`strict`: as `parse_lifecycle` has it."""
    parts = node.children(single=(*_SINGLE_PREDICATES, "And"), repeated=("Tag",))
    form = FilterForm.FILTER
    if "And" in parts:
        if len(parts) > 1:
            raise malformed("And must stand alone in its Filter")
        form = FilterForm.AND
        parts = parts["And"][0].children(single=_SINGLE_PREDICATES, repeated=("Tag",))
    count = sum(len(nodes) for nodes in parts.values())
    if form is FilterForm.AND and count < (2 if strict else 1):
        raise malformed("And must have at least two predicates")
    if form is FilterForm.FILTER and count > 1 and strict:
        raise malformed("a Filter has one predicate; several belong into And")
    return Filter(
        prefix=parts["Prefix"][0].text() if "Prefix" in parts else None,
        tags=_tags(parts.get("Tag", [])),
        size_greater_than=_integer(parts, "ObjectSizeGreaterThan"),
        size_less_than=_integer(parts, "ObjectSizeLessThan"),
        form=form,
    )


def _tags(nodes: list[Node]) -> Pairs:
    tags = []
    for node in nodes:
        parts = node.children(single=("Key", "Value"))
        if len(parts) != 2:
            raise malformed("a Tag must have a Key and a Value")
        tags.append((parts["Key"][0].text(), parts["Value"][0].text()))
    return tuple(tags)


def _actions(parts: dict[str, list[Node]], storage_classes: tuple[str, ...]) -> Iterable[Action]:
    for node in parts.get("Expiration", []):
        yield from _expiration(node)
    for node in parts.get("NoncurrentVersionExpiration", []):
        yield _noncurrent_expiration(node)
    for node in parts.get(_ABORT, []):
        fields = node.children(single=("DaysAfterInitiation",))
        yield Action(ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD, days=_required(node, fields, "DaysAfterInitiation"))
    for node in parts.get("Transition", []):
        yield _transition(node, storage_classes)
    for node in parts.get("NoncurrentVersionTransition", []):
        yield _noncurrent_transition(node, storage_classes)


def _expiration(node: Node) -> Iterable[Action]:
    fields = node.children(single=("Days", "Date", "ExpiredObjectDeleteMarker"))
    if len(fields) != 1:
        raise malformed("Expiration must have one of Days, Date and ExpiredObjectDeleteMarker")
    if "Days" in fields:
        yield Action(ActionKind.EXPIRATION_DAYS, days=_integer(fields, "Days"))
    elif "Date" in fields:
        yield Action(ActionKind.EXPIRATION_DATE, date=_midnight(fields["Date"][0].moment()))
    elif fields["ExpiredObjectDeleteMarker"][0].boolean():
        yield Action(ActionKind.EXPIRED_OBJECT_DELETE_MARKER)


def _noncurrent_expiration(node: Node) -> Action:
    fields = node.children(single=("NoncurrentDays", "NewerNoncurrentVersions"))
    days, newer = _required(node, fields, "NoncurrentDays"), _integer(fields, "NewerNoncurrentVersions")
    kind = ActionKind.NONCURRENT_DAYS if newer is None else ActionKind.NEWER_NONCURRENT_VERSIONS
    return Action(kind, days=days, newer=newer)


def _transition(node: Node, storage_classes: tuple[str, ...]) -> Action:
    fields = node.children(single=("Days", "Date", "StorageClass"))
    target = _storage_class(node, fields, storage_classes)
    if ("Days" in fields) == ("Date" in fields):
        raise malformed("Transition must have one of Days and Date")
    if "Days" in fields:
        return Action(ActionKind.TRANSITION_DAYS, days=_integer(fields, "Days"), storage_class=target)
    date = _midnight(fields["Date"][0].moment())
    return Action(ActionKind.TRANSITION_DATE, date=date, storage_class=target)


def _noncurrent_transition(node: Node, storage_classes: tuple[str, ...]) -> Action:
    fields = node.children(single=("NoncurrentDays", "NewerNoncurrentVersions", "StorageClass"))
    return Action(
        ActionKind.NONCURRENT_TRANSITION_DAYS,
        days=_required(node, fields, "NoncurrentDays"),
        newer=_integer(fields, "NewerNoncurrentVersions"),
        storage_class=_storage_class(node, fields, storage_classes),
    )


def _storage_class(node: Node, fields: dict[str, list[Node]], storage_classes: tuple[str, ...]) -> str:
    name = fields["StorageClass"][0].word() if "StorageClass" in fields else ""
    if name not in storage_classes:
        raise malformed(f"the StorageClass of {node.name} must be {_served(storage_classes)}")
    return name


def _served(storage_classes: tuple[str, ...]) -> str:
    if not storage_classes:
        return "served by a location, and there is none yet: an administrator makes one with tidegate location create"
    return f"one that a location serves: {', '.join(storage_classes)}"


def _integer(fields: dict[str, list[Node]], name: str) -> int | None:
    return fields[name][0].integer() if name in fields else None


def _required(node: Node, fields: dict[str, list[Node]], name: str) -> int:
    if name not in fields:
        raise malformed(f"{node.name} must have {name}")
    return fields[name][0].integer()


def _midnight(moment: datetime) -> int:
    seconds = moment.timestamp()
    if seconds % 86_400:
        raise S3Error("InvalidArgument", "'Date' must be at midnight GMT.")
    return int(seconds)


def _with_ids(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Rules without an id get one from what they do, so that the same document always gives the same ids."""
    taken = {rule.id for rule in rules if rule.id}
    named = []
    for rule in rules:
        if not rule.id:
            stem, number = f"rule-{rule.digest()[:16]}", 1
            rule = replace(rule, id=stem)
            while rule.id in taken:
                number += 1
                rule = replace(rule, id=f"{stem}-{number}")
            taken.add(rule.id)
        named.append(rule)
    return tuple(named)


def _text(body: bytes) -> str:
    """The document as text; "" where it is in another encoding, so that it is written anew instead."""
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return ""
