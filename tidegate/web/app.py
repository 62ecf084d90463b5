"""The web application: API, pages, metrics and health, with limits on what a client may send."""

from __future__ import annotations

from collections.abc import Collection

from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tidegate import __version__, metrics
from tidegate.core.records import GatewayEntry
from tidegate.web import (
    api,
    audits,
    crr,
    crr_failed,
    deletion,
    errors,
    lifecycle,
    lifecycle_page,
    locations,
    movement_page,
    moves,
    pages,
    replication,
    replication_jobs,
    replication_page,
    trash,
)
from tidegate.web.access import GivenToken, require_token
from tidegate.web.host_check import HostCheck
from tidegate.web.service import OfRequest, Service

BODY_LIMIT_BYTES = 64 * 1024
# Of lists of versions to retry: enough for a page of the list of failures, whatever their keys hold.
_LIST_LIMIT_BYTES = 8 * 1024 * 1024
_LISTS = ("/_/crr/failed",)

_TAGS = [
    {"name": "service", "description": "The service as a whole."},
    {"name": "pools", "description": "One directory, one owner, one backend each."},
    {"name": "keys", "description": "Access keys of pools."},
    {"name": "buckets", "description": "Buckets in the one namespace of all pools."},
    {"name": "users", "description": "Owners of pools."},
    {"name": "metadata log", "description": "Every change made through the gateway."},
    {"name": "lifecycle", "description": "Expiry of objects by the buckets' rules, and what it did."},
    {"name": "deletion", "description": "Deletion of data that no record refers to any more, and purges."},
    {"name": "locations", "description": "S3 endpoints to which the data of objects moves."},
    {"name": "moves", "description": "Moves of objects to a location, and back."},
    {"name": "replication", "description": "Replication to sites: what failed, metrics, pauses."},
]


class _Limits:
    """Refuses large bodies, counts replies, and marks every reply as private."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        received = 0
        most = _LIST_LIMIT_BYTES if scope["path"] in _LISTS else BODY_LIMIT_BYTES

        async def limited() -> Message:
            nonlocal received
            message = await receive()
            received += len(message.get("body", b""))
            if received > most:
                raise _TooLarge
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                metrics.API_REQUESTS.labels(f"{message['status'] // 100}xx").inc()
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            await self._app(scope, limited, counted)
        except _TooLarge:
            text = f"the body is larger than {most} bytes"
            await errors.error_response(413, "TooLarge", text, {"Connection": "close"})(scope, receive, counted)


class _TooLarge(BaseException):
    """Not an Exception: no handler between us and the application may take it for its own."""


def create_app(service: Service, names: Collection[str]) -> FastAPI:
    """`names` are the values of the header `Host` that it answers to."""
    app = FastAPI(
        title="Tidegate",
        version=__version__,
        description="Pools, keys, buckets, users and the metadata log of a Tidegate service.",
        openapi_tags=_TAGS,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.service = service
    errors.install(app)
    app.include_router(api.router)
    app.include_router(lifecycle.router)
    app.include_router(deletion.router)
    app.include_router(locations.router)
    app.include_router(moves.router)
    app.include_router(audits.router)
    app.include_router(trash.router)
    app.include_router(crr_failed.router)
    app.include_router(crr.router)
    app.include_router(replication.router)
    app.include_router(replication_jobs.router)
    app.include_router(pages.router)
    app.include_router(lifecycle_page.router)
    app.include_router(movement_page.router)
    app.include_router(replication_page.router)

    @app.get("/healthz", tags=["service"], summary="Whether the API and its tables answer; needs no token")
    def healthz(service: OfRequest) -> JSONResponse:
        service.tables.scan(GatewayEntry.PREFIX, limit=1)
        return JSONResponse({"status": "ok"})

    @app.get("/metrics", tags=["service"], summary="Prometheus metrics; no token unless api.metrics_open is false")
    def show_metrics(request: Request, service: OfRequest, given: GivenToken) -> Response:
        if not service.settings.api.metrics_open:
            require_token(request, given)
        return Response(service.measure(), media_type="text/plain; version=0.0.4; charset=utf-8")

    app.add_middleware(HostCheck, names=names)
    app.add_middleware(_Limits)  # the outermost: it counts and marks also what is refused
    return app
