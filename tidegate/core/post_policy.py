"""The policy document of a form: what its signer allows those to upload who have it."""

from __future__ import annotations

import binascii
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from tidegate.core.s3errors import S3Error

_RANGE = "content-length-range"
_MATCHES = ("eq", "starts-with")
# Fields that no condition needs to speak of.
_FREE = frozenset(("awsaccesskeyid", "file", "policy", "signature", "x-amz-signature"))
_IGNORED = "x-ignore-"
_MOST_DIGITS = 16


class Condition(NamedTuple):
    """The field must have the value, or begin with it. `text` is the condition as S3 words it in an error."""

    field: str
    value: str
    is_prefix: bool

    @property
    def text(self) -> str:
        return json.dumps([_MATCHES[self.is_prefix], f"${self.field}", self.value])

    def holds(self, value: str) -> bool:
        if not self.is_prefix:
            return value == self.value
        # A list of types must match in all of its entries.
        values = [each.strip() for each in value.split(",")] if self.field == "content-type" else [value]
        return all(each.startswith(self.value) for each in values)


class SizeRange(NamedTuple):
    """How many bytes the file may have, the bounds included."""

    least: int = 0
    most: int | None = None

    def check_most(self, size: int) -> None:
        if self.most is not None and size > self.most:
            raise S3Error(
                "EntityTooLarge",
                "Your proposed upload exceeds the maximum allowed size",
                fields={"ProposedSize": str(size), "MaxSizeAllowed": str(self.most)},
            )

    def check_least(self, size: int) -> None:
        if size < self.least:
            raise S3Error(
                "EntityTooSmall",
                "Your proposed upload is smaller than the minimum allowed size",
                fields={"ProposedSize": str(size), "MinSizeAllowed": str(self.least)},
            )


class PostPolicy(NamedTuple):
    expires: float
    conditions: tuple[Condition, ...]
    size: SizeRange

    def check(self, fields: Mapping[str, str], *, bucket: str, now: float) -> None:
        """`fields` have lower-case names, and variables in them are expanded. Raises `S3Error`."""
        if self.expires <= now:
            raise _denied("Policy expired.")
        values = {**fields, "bucket": bucket}
        for condition in self.conditions:
            if not condition.holds(values.get(condition.field, "")):
                raise _denied(f"Policy Condition failed: {condition.text}")
        covered = {condition.field for condition in self.conditions}
        extra = sorted(name for name in fields if not (name in covered | _FREE or name.startswith(_IGNORED)))
        if extra:
            raise _denied(f"Extra input fields: {', '.join(extra)}")


def parse_policy(encoded: str) -> PostPolicy:
    """The document in a form's field `policy`: JSON in Base64. Raises `S3Error`."""
    try:
        document = json.loads(binascii.a2b_base64("".join(encoded.split()), strict_mode=True).decode())
    except (ValueError, RecursionError):
        raise _invalid("Invalid JSON.") from None
    if not isinstance(document, dict):
        raise _invalid("Invalid JSON: the document must be an object.")
    if not document.keys() >= {"expiration", "conditions"}:
        raise _invalid("Policy is missing expiration or conditions.")
    conditions: list[Condition] = []
    size = SizeRange()
    if not isinstance(document["conditions"], list):
        raise _invalid("conditions must be a list.")
    for each in document["conditions"]:
        if isinstance(each, dict):
            conditions.append(_simple(each))
        elif _is_range(each):
            size = _narrowed(size, each)
        else:
            conditions.append(_match(each))
    return PostPolicy(_time(document["expiration"]), tuple(conditions), size)


def _simple(condition: dict[str, Any]) -> Condition:
    if len(condition) != 1:
        raise _invalid("Invalid Simple-Condition: Simple-Conditions must have exactly one property specified.")
    ((field, value),) = condition.items()
    if not isinstance(value, str):
        raise _invalid("Invalid Simple-Condition: value must be a string.")
    return Condition(field.lower(), value, is_prefix=False)


def _is_range(condition: Any) -> bool:
    return isinstance(condition, list) and bool(condition) and _lowered(condition[0]) == _RANGE


def _narrowed(size: SizeRange, condition: list[Any]) -> SizeRange:
    """Of several ranges all must hold."""
    if len(condition) != 3:
        raise _invalid(f"Invalid {_RANGE}: wrong number of arguments.")
    least, most = (_number(value) for value in condition[1:])
    return SizeRange(max(size.least, least), most if size.most is None else min(size.most, most))


def _match(condition: Any) -> Condition:
    if not (isinstance(condition, list) and len(condition) == 3 and all(isinstance(each, str) for each in condition)):
        raise _invalid("Invalid condition: it must have an operation, a field and a value.")
    operation, field, value = condition
    if operation.lower() not in _MATCHES:
        raise _invalid(f"Invalid condition operation: {operation[:64]}.")
    if len(field) < 2 or not field.startswith("$"):
        raise _invalid("Invalid condition: the name of the field must begin with $.")
    return Condition(field[1:].lower(), value, is_prefix=operation.lower() == "starts-with")


def _lowered(value: Any) -> str:
    return value.lower() if isinstance(value, str) else ""


def _number(value: Any) -> int:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= _MOST_DIGITS:
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**_MOST_DIGITS:
        return value
    raise _invalid(f"Invalid {_RANGE}: its bounds must be numbers of bytes.")


def _time(text: Any) -> float:
    """S3's times end in Z, as 2026-01-01T12:00:00.000Z."""
    if not isinstance(text, str) or not text.endswith("Z"):
        raise _invalid("Invalid 'expiration' value.")
    try:
        return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()
    except (ValueError, OverflowError):
        raise _invalid(f"Invalid 'expiration' value: '{text[:64]}'") from None


def _invalid(why: str) -> S3Error:
    return S3Error("InvalidPolicyDocument", f"Invalid Policy: {why}")


def _denied(why: str) -> S3Error:
    return S3Error("AccessDenied", f"Invalid according to Policy: {why}")
