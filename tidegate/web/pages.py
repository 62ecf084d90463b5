"""The pages for people: the status page and the API's description. They load nothing from anywhere else."""

from __future__ import annotations

from html import escape
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from tidegate.web.layout import page, table
from tidegate.web.lifecycle_page import overview
from tidegate.web.service import OfRequest, StatusView

router = APIRouter(include_in_schema=False)


@router.get("/")
def status_page(service: OfRequest) -> HTMLResponse:
    return page("Status", _status(service.status()) + overview(service))


@router.get("/docs")
def api_page(request: Request) -> HTMLResponse:
    return page("HTTP API", _api(request.app.openapi()))


def _status(status: StatusView) -> str:
    pools = [(state, str(count)) for state, count in status.pools.items()]
    gateways = [
        (f"{view.host}:{view.port}", str(view.pid), view.started_at.strftime("%Y-%m-%d %H:%M:%SZ"))
        for view in status.gateways
    ]
    return (
        f"<p class=lead>S3 endpoint <code>{escape(status.s3 or 'starting')}</code></p>"
        f"<section><h2>Pools</h2>{table(('State', 'Pools'), pools, 'There are no pools yet.')}"
        f"<p>{status.running_pools} running now.</p></section>"
        f"<section><h2>Gateways</h2>{table(('Address', 'Process', 'Since'), gateways, 'No gateway is registered.')}"
        "</section>"
    )


def _api(description: dict[str, Any]) -> str:
    """Every operation of the OpenAPI description, by tag."""
    sections: dict[str, list[str]] = {}
    for path, operations in description["paths"].items():
        for method, operation in operations.items():
            tag = (operation.get("tags") or ["other"])[0]
            sections.setdefault(tag, []).append(_operation(method.upper(), path, operation, description))
    body = "".join(
        f"<section><h2>{escape(tag.capitalize())}</h2>{''.join(items)}</section>" for tag, items in sections.items()
    )
    return (
        "<p class=lead>Send <code>Authorization: Bearer TOKEN</code> with the admin token. "
        'The machine-readable description is at <a href="/openapi.json">openapi.json</a>.</p>' + body
    )


def _operation(method: str, path: str, operation: dict[str, Any], description: dict[str, Any]) -> str:
    parameters = [
        (item["name"], item["in"], _type(item.get("schema", {})), item.get("description", ""))
        for item in operation.get("parameters", [])
    ]
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
    for name, schema in _resolve(body, description).get("properties", {}).items():
        parameters.append((name, "body", _type(schema), schema.get("description", "")))
    replies = ", ".join(
        f"{code} {reply.get('description', '')}".strip() for code, reply in operation["responses"].items()
    )
    details = (
        table(("Name", "In", "Type", "Meaning"), parameters, "No parameters.") + f"<p>Replies: {escape(replies)}</p>"
    )
    summary = f"<b>{escape(method)}</b> <code>{escape(path)}</code> {escape(operation.get('summary', ''))}"
    return f"<details><summary>{summary}</summary>{details}</details>"


def _resolve(schema: dict[str, Any], description: dict[str, Any]) -> dict[str, Any]:
    reference = schema.get("$ref", "")
    found: dict[str, Any] = schema
    if reference:
        found = description["components"]["schemas"][reference.rpartition("/")[2]]
    return found


def _type(schema: dict[str, Any]) -> str:
    if "anyOf" in schema:
        return " or ".join(_type(item) for item in schema["anyOf"])
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    return str(schema.get("format") or schema.get("type", "any"))
