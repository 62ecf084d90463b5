"""The body of PUT bucket CORS, from XML to rules and back."""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.etree.ElementTree import Element

from tidegate.core.cors import CorsRule, CorsRules
from tidegate.core.documents import local_name, malformed, plain_text, request_document
from tidegate.core.s3errors import S3Error
from tidegate.core.xml_writer import DECLARATION, NAMESPACE, element

MOST_RULES = 100
LONGEST_ID = 255
_METHODS = frozenset(("GET", "PUT", "POST", "DELETE", "HEAD"))
_REPEATED = frozenset(("AllowedOrigin", "AllowedMethod", "AllowedHeader", "ExposeHeader"))
_SINGLE = frozenset(("ID", "MaxAgeSeconds"))
_MOST_SECONDS = 2**31 - 1
# Whatever is let in here may come to stand in the head of a reply.
_ORIGIN = re.compile(r"[!-~]{1,1024}")
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")


def parse_cors(body: bytes) -> CorsRules:
    root = request_document(body, "CORSConfiguration")
    for node in root:
        if local_name(node) != "CORSRule":
            raise malformed(f"{local_name(node)} does not belong here")
    if not len(root):
        raise malformed("there must be at least one CORSRule")
    if len(root) > MOST_RULES:
        raise S3Error(
            "InvalidRequest", f"The number of CORS rules should not exceed allowed limit of {MOST_RULES} rules."
        )
    return CorsRules(tuple(_rule(node) for node in root))


def _rule(node: Element) -> CorsRule:
    texts: dict[str, list[str]] = {}
    for child in node:
        name = local_name(child)
        if name not in _REPEATED and (name not in _SINGLE or name in texts):
            raise malformed(f"{name} does not belong here, or stands here twice")
        texts.setdefault(name, []).append(plain_text(child).strip())
    origins, methods = texts.get("AllowedOrigin", []), texts.get("AllowedMethod", [])
    if not origins or not methods:
        raise malformed("a CORSRule must have an AllowedOrigin and an AllowedMethod")
    _check_methods(methods)
    _check_patterns("AllowedOrigin", origins, _ORIGIN)
    headers, exposed = texts.get("AllowedHeader", []), texts.get("ExposeHeader", [])
    _check_patterns("AllowedHeader", headers, _HEADER)
    _check_exposed(exposed)
    rule_id = texts.get("ID", [""])[0]
    if len(rule_id) > LONGEST_ID:
        raise S3Error("InvalidRequest", f"The ID of a CORS rule must have at most {LONGEST_ID} characters.")
    ages = texts.get("MaxAgeSeconds", [])
    return CorsRule(
        tuple(origins), tuple(methods), tuple(headers), tuple(exposed), _seconds(ages[0]) if ages else None, rule_id
    )


def _check_methods(methods: Iterable[str]) -> None:
    for method in methods:
        if method not in _METHODS:
            raise S3Error(
                "InvalidRequest", f"Found unsupported HTTP method in CORS config. Unsupported method is {method[:64]}"
            )


def _check_patterns(name: str, patterns: Iterable[str], form: re.Pattern[str]) -> None:
    for pattern in patterns:
        if pattern.count("*") > 1:
            raise S3Error("InvalidRequest", f'{name} "{pattern[:256]}" can not have more than one wildcard.')
        if not form.fullmatch(pattern):
            raise S3Error("InvalidRequest", f'{name} "{pattern[:256]}" is not valid.')


def _check_exposed(names: Iterable[str]) -> None:
    for name in names:
        if "*" in name:
            raise S3Error(
                "InvalidRequest",
                f'ExposeHeader "{name[:256]}" contains wildcard. Wildcards are not supported for ExposeHeader.',
            )
        if not _HEADER.fullmatch(name):
            raise S3Error("InvalidRequest", f'ExposeHeader "{name[:256]}" is not valid.')


def _seconds(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 10 and int(text) <= _MOST_SECONDS):
        raise malformed("MaxAgeSeconds must be a number of seconds")
    return int(text)


def cors_xml(configuration: CorsRules) -> bytes:
    rules = "".join(f"<CORSRule>{_content(rule)}</CORSRule>" for rule in configuration.rules)
    return f'{DECLARATION}<CORSConfiguration xmlns="{NAMESPACE}">{rules}</CORSConfiguration>'.encode()


def _content(rule: CorsRule) -> str:
    parts = [element("ID", rule.id)] if rule.id else []
    for name, values in (
        ("AllowedOrigin", rule.origins),
        ("AllowedMethod", rule.methods),
        ("AllowedHeader", rule.headers),
        ("ExposeHeader", rule.exposed),
    ):
        parts += [element(name, value) for value in values]
    if rule.max_age is not None:
        parts.append(element("MaxAgeSeconds", str(rule.max_age)))
    return "".join(parts)
