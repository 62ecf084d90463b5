"""The body of PUT bucket replication, from XML to rules and back.

As in Backbeat, `StorageClass` of a Destination names the sites, separated by commas, each perhaps with
`:preferred_read` behind it. What else S3 knows and what changes nothing here is kept and shown again.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from xml.etree.ElementTree import Element

from tidegate.core.documents import document_xml, local_name, malformed
from tidegate.core.errors import InvalidInput
from tidegate.core.lifecycle.rules import Filter, FilterForm
from tidegate.core.lifecycle.rules_xml import read_filter
from tidegate.core.lifecycle.xml_nodes import Node, read_element
from tidegate.core.names import check_bucket_name
from tidegate.core.replication.rule_checks import check_rules
from tidegate.core.replication.rules import ReplicationRule, ReplicationRules, check_sites
from tidegate.core.s3errors import S3Error

_ROOT = "ReplicationConfiguration"
_MARKERS, _EXISTING, _SOURCES = "DeleteMarkerReplication", "ExistingObjectReplication", "SourceSelectionCriteria"
_RULE = ("ID", "Priority", "Prefix", "Filter", "Status", "Destination", _MARKERS, _EXISTING, _SOURCES)
_DESTINATION = (
    *("Bucket", "Account", "StorageClass", "AccessControlTranslation", "EncryptionConfiguration"),
    *("ReplicationTime", "Metrics"),
)
_ARN = re.compile(r"arn:[a-z-]+:s3:::(.*)", re.DOTALL)
_PREFERRED = ":preferred_read"
_NO_SITE = "there is no site yet; an administrator makes one with tidegate location create"


def parse_replication(body: bytes, *, sites: Sequence[str]) -> ReplicationRules:
    """The configuration, checked; an `S3Error` with S3's code where it breaks a rule. `sites` are those there are."""
    root = read_element(body, _ROOT)
    parts = Node(root).children(single=("Role",), repeated=("Rule",))
    rules = tuple(_rule(node, sites) for node in parts.get("Rule", []))
    if not rules:
        raise malformed("there must be at least one Rule")
    check_rules(rules)
    named = _with_ids(rules)
    role = parts["Role"][0].word() if "Role" in parts else ""
    return ReplicationRules(named, role, _source(body, root, named))


def replication_xml(rules: ReplicationRules) -> bytes:
    """What PUT gave, with ids where it had none."""
    return rules.source.encode()


# --- a rule ------------------------------------------------------------------------------------------------------


def _rule(node: Node, sites: Sequence[str]) -> ReplicationRule:
    parts = node.children(single=_RULE)
    _refuse_unsupported(parts)
    if "Destination" not in parts:
        raise malformed("a Rule must have a Destination")
    rule_id = parts["ID"][0].text() if "ID" in parts else ""
    enabled = _is_enabled(node, parts)
    rule_filter, has_filter = _filter(parts), "Filter" in parts
    bucket, named_sites = _destination(parts["Destination"][0], sites)
    return ReplicationRule(
        id=rule_id,
        priority=_priority(parts) if has_filter else 0,
        enabled=enabled,
        filter=rule_filter,
        bucket=bucket,
        sites=named_sites,
        delete_markers=_replicates_markers(parts) if has_filter else True,
        existing_objects=_switch(parts, _EXISTING),
        id_generated=not rule_id,
    )


def _refuse_unsupported(parts: dict[str, list[Node]]) -> None:
    for node in parts.get(_SOURCES, []):
        criteria = node.children(single=("SseKmsEncryptedObjects", "ReplicaModifications"))
        _switch(criteria, "SseKmsEncryptedObjects")  # there are none
        if _switch(criteria, "ReplicaModifications"):
            raise S3Error("NotImplemented", "ReplicaModifications cannot be enabled: replicas are not replicated on.")


def _filter(parts: dict[str, list[Node]]) -> Filter:
    """The older form has a Prefix and neither a Filter nor what came with it."""
    if "Filter" in parts:
        if "Prefix" in parts:
            raise malformed("a Rule must have either a Filter or, in the old form, a Prefix")
        found = read_filter(parts["Filter"][0], strict=False)
        if found.has_size:
            raise malformed("a Filter of replication has no sizes")
        return found
    if "Prefix" not in parts:
        raise malformed("a Rule must have a Filter or, in the old form, a Prefix")
    for name in ("Priority", _MARKERS, _EXISTING):
        if name in parts:
            raise S3Error("InvalidRequest", f"{name} cannot be used in a Rule without a Filter.")
    return Filter(prefix=parts["Prefix"][0].text(), form=FilterForm.RULE_PREFIX)


def _priority(parts: dict[str, list[Node]]) -> int:
    if "Priority" not in parts:
        raise S3Error("InvalidRequest", "Priority must be specified in a Rule with a Filter.")
    return parts["Priority"][0].integer()


def _replicates_markers(parts: dict[str, list[Node]]) -> bool:
    if _MARKERS not in parts:
        raise S3Error("InvalidRequest", "DeleteMarkerReplication must be specified in a Rule with a Filter.")
    return _switch(parts, _MARKERS)


def _switch(parts: dict[str, list[Node]], name: str) -> bool:
    """An element whose only child is a Status. One that is missing is Disabled."""
    return name in parts and _is_enabled(parts[name][0], parts[name][0].children(single=("Status",)))


def _is_enabled(node: Node, parts: dict[str, list[Node]]) -> bool:
    status = parts["Status"][0].word() if "Status" in parts else ""
    if status not in ("Enabled", "Disabled"):
        raise malformed(f"the Status of {node.name} must be Enabled or Disabled")
    return status == "Enabled"


# --- where to ----------------------------------------------------------------------------------------------------


def _destination(node: Node, sites: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    parts = node.children(single=_DESTINATION)
    if "Bucket" not in parts:
        raise malformed("Destination must have a Bucket")
    if "EncryptionConfiguration" in parts:
        raise S3Error("NotImplemented", "A rule cannot name a key for replicas: sites encrypt in their own way.")
    _check_kept(parts)
    bucket = _bucket(parts["Bucket"][0].word())
    return bucket, _sites(parts["StorageClass"][0].word() if "StorageClass" in parts else None, sites)


def _check_kept(parts: dict[str, list[Node]]) -> None:
    """What changes nothing here must at least be what S3 accepts."""
    if "Account" in parts:
        parts["Account"][0].text()
    for node in parts.get("AccessControlTranslation", []):
        owner = node.children(single=("Owner",)).get("Owner")
        if owner is None or owner[0].word() != "Destination":
            raise malformed("the Owner of AccessControlTranslation must be Destination")
        if "Account" not in parts:
            raise S3Error("InvalidRequest", "AccessControlTranslation needs the Account of the destination.")
    for name, inner in (("ReplicationTime", "Time"), ("Metrics", "EventThreshold")):
        for node in parts.get(name, []):
            fields = node.children(single=("Status", inner))
            _is_enabled(node, fields)
            for threshold in fields.get(inner, []):
                for minutes in threshold.children(single=("Minutes",)).get("Minutes", []):
                    minutes.integer()
    if "ReplicationTime" in parts and "Metrics" not in parts:
        raise S3Error("InvalidRequest", "ReplicationTime cannot be used without Metrics.")


def _bucket(text: str) -> str:
    arn = _ARN.fullmatch(text)
    name = arn.group(1) if arn is not None else text
    try:
        return check_bucket_name(name)
    except InvalidInput as error:
        message = f"The Bucket of a Destination is arn:aws:s3:::NAME, or NAME: {error}."
        raise S3Error("InvalidArgument", message) from None


def _sites(text: str | None, known: Sequence[str]) -> tuple[str, ...]:
    if text is None:
        if len(known) == 1:
            return (known[0],)
        which = "an administrator knows their names" if known else _NO_SITE
        raise S3Error("InvalidRequest", f"A Destination must name its sites in StorageClass: {which}.")
    named = dict.fromkeys(site.strip().removesuffix(_PREFERRED) for site in text.split(","))
    try:
        check_sites(named, known)
    except InvalidInput as error:
        raise S3Error("InvalidArgument", f"StorageClass of a Destination names its sites, and {error}.") from None
    return tuple(named)


# --- ids ---------------------------------------------------------------------------------------------------------


def _with_ids(rules: Iterable[ReplicationRule]) -> tuple[ReplicationRule, ...]:
    """Rules without an id get one from what they do, so that the same document always gives the same ids."""
    rules = tuple(rules)
    taken = {rule.id for rule in rules if rule.id}

    def named() -> Iterator[ReplicationRule]:
        for rule in rules:
            name, number = rule.id or f"rule-{rule.digest()[:16]}", 1
            stem = name
            while not rule.id and name in taken:
                number += 1
                name = f"{stem}-{number}"
            taken.add(name)
            yield replace(rule, id=name)

    return tuple(named())


def _source(body: bytes, root: Element, rules: Sequence[ReplicationRule]) -> str:
    """The document byte for byte, unless ids must be added or it is in another encoding."""
    if not any(rule.id_generated for rule in rules):
        try:
            return body.decode()
        except UnicodeDecodeError:
            pass
    nodes = [node for node in root if local_name(node) == "Rule"]
    for node, rule in zip(nodes, rules, strict=True):
        if rule.id_generated:
            for empty in [child for child in node if local_name(child) == "ID"]:
                node.remove(empty)
            added = Element("ID")
            added.text = rule.id
            node.insert(0, added)
    return document_xml(root).decode()
