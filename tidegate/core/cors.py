"""Cross-origin rules of a bucket: which pages of other origins may use it, and what a reply tells their browsers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from hashlib import sha256
from typing import Self

from tidegate.core import codec
from tidegate.core.s3errors import S3Error

CORS = "co:"
_ANY = "*"
_VARY = "Origin, Access-Control-Request-Headers, Access-Control-Request-Method"
_NOT_ALLOWED = (
    "CORSResponse: This CORS request is not allowed. This is usually because the evalution of Origin, request method / "
    "Access-Control-Request-Method or Access-Control-Request-Headers are not whitelisted by the resource's CORS spec."
)


@dataclass(frozen=True, slots=True)
class CorsRule:
    """`origins` and `headers` may have one asterisk each, which stands for any characters."""

    origins: tuple[str, ...]
    methods: tuple[str, ...]
    headers: tuple[str, ...] = ()
    exposed: tuple[str, ...] = ()
    max_age: int | None = None
    id: str = ""

    def matches(self, origin: str, method: str, headers: Iterable[str]) -> bool:
        return (
            method in self.methods
            and any(_matches(pattern, origin) for pattern in self.origins)
            and all(self._allows_header(name.lower()) for name in headers)
        )

    def _allows_header(self, name: str) -> bool:
        return any(_matches(pattern.lower(), name) for pattern in self.headers)

    def reply_headers(self, origin: str, headers: tuple[str, ...] = ()) -> dict[str, str]:
        """What a reply tells the browser. `headers` are those that a preflight asked for."""
        is_open = _ANY in self.origins
        found = {
            "Access-Control-Allow-Origin": _ANY if is_open else origin,
            "Access-Control-Allow-Methods": ", ".join(self.methods),
        }
        if headers:
            found["Access-Control-Allow-Headers"] = ", ".join(name.lower() for name in headers)
        if self.exposed:
            found["Access-Control-Expose-Headers"] = ", ".join(self.exposed)
        if self.max_age is not None:
            found["Access-Control-Max-Age"] = str(self.max_age)
        if not is_open:
            found["Access-Control-Allow-Credentials"] = "true"
        found["Vary"] = _VARY
        return found


@dataclass(frozen=True, slots=True)
class CorsRules:
    """The rules of one bucket. The first one that matches counts."""

    rules: tuple[CorsRule, ...]

    def of_request(self, origin: str, method: str) -> dict[str, str]:
        """The headers for the reply to a request from that origin; none where no rule matches."""
        rule = next((rule for rule in self.rules if rule.matches(origin, method, ())), None)
        return rule.reply_headers(origin) if rule is not None else {}

    def digest(self) -> str:
        return sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        return codec.to_text(self.rules)

    @classmethod
    def from_json(cls, text: str) -> Self:
        return cls(codec.decoded(text, tuple[CorsRule, ...], "stored CORS configuration"))


def preflight(rules: CorsRules | None, *, origin: str, method: str, headers: str) -> dict[str, str]:
    """The headers of the reply to a preflight, whose own headers these are. Raises `S3Error` if no rule allows it."""
    if not origin:
        raise S3Error("BadRequest", "Insufficient information. Origin request header needed.")
    if not method:
        raise S3Error("BadRequest", "Invalid Access-Control-Request-Method: null")
    if rules is None:
        raise S3Error("AccessForbidden", "CORSResponse: CORS is not enabled for this bucket.")
    wanted = tuple(name.strip() for name in headers.split(",") if name.strip())
    for rule in rules.rules:
        if rule.matches(origin, method, wanted):
            return rule.reply_headers(origin, wanted)
    raise S3Error("AccessForbidden", _NOT_ALLOWED, fields={"Method": method})


def _matches(pattern: str, text: str) -> bool:
    start, asterisk, end = pattern.partition(_ANY)
    if not asterisk:
        return text == pattern
    return len(text) >= len(start) + len(end) and text.startswith(start) and text.endswith(end)
