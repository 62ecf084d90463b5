"""The answer to GET bucket lifecycle: the document as it was put, or the rules written anew where it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from tidegate.core.events import Pairs
from tidegate.core.lifecycle.rules import Action, ActionKind, Filter, FilterForm, Rule, RuleSet
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element


def lifecycle_xml(rule_set: RuleSet) -> bytes:
    """What PUT gave, byte for byte. Where rules had no id it is written anew, with the ids that they were given."""
    if rule_set.source and not any(rule.id_generated for rule in rule_set.rules):
        return rule_set.source.encode()
    return written_xml(rule_set)


def written_xml(rule_set: RuleSet) -> bytes:
    rules = "".join(f"<Rule>{''.join(_rule(rule))}</Rule>" for rule in rule_set.rules)
    return f'{DECLARATION}<LifecycleConfiguration xmlns="{NAMESPACE}">{rules}</LifecycleConfiguration>'.encode()


def _rule(rule: Rule) -> Iterator[str]:
    yield element("ID", rule.id)
    yield _filter(rule.filter)
    yield element("Status", "Enabled" if rule.enabled else "Disabled")
    for action in rule.actions:
        yield _action(action)
    if not rule.actions:
        # The one rule without an action that can be put: a clean-up of markers that is switched off.
        yield "<Expiration><ExpiredObjectDeleteMarker>false</ExpiredObjectDeleteMarker></Expiration>"


def _filter(rule_filter: Filter) -> str:
    if rule_filter.form is FilterForm.RULE_PREFIX:
        return element("Prefix", rule_filter.prefix or "")
    predicates = "".join(_predicates(rule_filter))
    return f"<Filter><And>{predicates}</And></Filter>" if _needs_and(rule_filter) else f"<Filter>{predicates}</Filter>"


def _needs_and(rule_filter: Filter) -> bool:
    return rule_filter.form is FilterForm.AND or sum(1 for _ in _predicates(rule_filter)) > 1


def _predicates(rule_filter: Filter) -> Iterator[str]:
    if rule_filter.prefix is not None:
        yield element("Prefix", rule_filter.prefix)
    yield from _tags(rule_filter.tags)
    if rule_filter.size_greater_than is not None:
        yield element("ObjectSizeGreaterThan", str(rule_filter.size_greater_than))
    if rule_filter.size_less_than is not None:
        yield element("ObjectSizeLessThan", str(rule_filter.size_less_than))


def _tags(tags: Pairs) -> Iterator[str]:
    for name, value in tags:
        yield f"<Tag>{element('Key', name)}{element('Value', value)}</Tag>"


def _action(action: Action) -> str:
    match action.kind:
        case ActionKind.EXPIRATION_DAYS | ActionKind.EXPIRATION_DATE:
            return f"<Expiration>{_when(action, 'Days')}</Expiration>"
        case ActionKind.EXPIRED_OBJECT_DELETE_MARKER:
            return "<Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>"
        case ActionKind.NONCURRENT_DAYS | ActionKind.NEWER_NONCURRENT_VERSIONS:
            fields = _when(action, "NoncurrentDays") + _newer(action)
            return f"<NoncurrentVersionExpiration>{fields}</NoncurrentVersionExpiration>"
        case ActionKind.ABORT_INCOMPLETE_MULTIPART_UPLOAD:
            days = _when(action, "DaysAfterInitiation")
            return f"<AbortIncompleteMultipartUpload>{days}</AbortIncompleteMultipartUpload>"
        case ActionKind.TRANSITION_DAYS | ActionKind.TRANSITION_DATE:
            fields = _when(action, "Days") + element("StorageClass", action.storage_class)
            return f"<Transition>{fields}</Transition>"
        case ActionKind.NONCURRENT_TRANSITION_DAYS:
            fields = _when(action, "NoncurrentDays") + _newer(action) + element("StorageClass", action.storage_class)
            return f"<NoncurrentVersionTransition>{fields}</NoncurrentVersionTransition>"


def _when(action: Action, days_element: str) -> str:
    if action.date is None:
        return element(days_element, str(action.days))
    day = datetime.fromtimestamp(action.date, UTC).date()
    return element("Date", f"{day.isoformat()}T00:00:00.000Z")


def _newer(action: Action) -> str:
    return "" if action.newer is None else element("NewerNoncurrentVersions", str(action.newer))
