"""One format for every error of the HTTP API, and the status each kind of error gets."""

from __future__ import annotations

import logging
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from tidegate.core.errors import AlreadyExists, Conflict, InvalidInput, NotFound, TidegateError, Unavailable
from tidegate.core.s3errors import S3Error

_RETRY_SECONDS = 5
_STATUS: dict[type[TidegateError], HTTPStatus] = {
    InvalidInput: HTTPStatus.BAD_REQUEST,
    NotFound: HTTPStatus.NOT_FOUND,
    AlreadyExists: HTTPStatus.CONFLICT,
    Conflict: HTTPStatus.CONFLICT,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}
_CODES = {
    400: "InvalidInput",
    401: "Unauthorized",
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    413: "TooLarge",
    422: "InvalidInput",
}

log = logging.getLogger(__name__)


class ErrorView(BaseModel):
    """What went wrong."""

    error: str = Field(description="A code for programs.", examples=["NotFound"])
    message: str = Field(description="An explanation for people.", examples=["there is no pool physics"])


def error_response(status: int, code: str, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(ErrorView(error=code, message=message).model_dump(), status, headers)


def install(app: FastAPI) -> None:
    @app.exception_handler(TidegateError)
    def expected(request: Request, error: TidegateError) -> JSONResponse:
        status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), HTTPStatus.BAD_REQUEST)
        headers = {"Retry-After": str(_RETRY_SECONDS)} if status == HTTPStatus.SERVICE_UNAVAILABLE else None
        # Rules that S3 would refuse are refused with its code.
        code, message = (
            (error.code, error.message) if isinstance(error, S3Error) else (type(error).__name__, str(error))
        )
        return error_response(status, code, message, headers)

    @app.exception_handler(RequestValidationError)
    def malformed(request: Request, error: RequestValidationError) -> JSONResponse:
        parts = [f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}" for problem in error.errors()]
        return error_response(HTTPStatus.UNPROCESSABLE_ENTITY, "InvalidInput", "; ".join(parts))

    @app.exception_handler(HTTPException)
    def refused(request: Request, error: HTTPException) -> JSONResponse:
        code = _CODES.get(error.status_code, "Error")
        return error_response(error.status_code, code, str(error.detail), dict(error.headers or {}))

    @app.exception_handler(Exception)
    def unexpected(request: Request, error: Exception) -> JSONResponse:
        # The server logs the traceback; the client gets no internals.
        message = "an unexpected error; the log of the API process has the details"
        return error_response(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalError", message)
