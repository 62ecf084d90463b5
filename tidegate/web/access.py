"""Access to the API: the admin token opens it."""

from __future__ import annotations

import base64
import binascii
import hmac
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

_bearer = HTTPBearer(auto_error=False, description="The admin token: `admin_token` in `run/endpoints.json`.")

GivenToken = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def require_token(request: Request, given: GivenToken) -> None:
    if given is None:
        raise HTTPException(401, "send the header Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
    if not _is_right(request, given.credentials):
        raise HTTPException(403, "the token is wrong")


def require_token_of_reader(request: Request) -> None:
    """For pages: a browser asks its user for the token as a password, whatever the name."""
    scheme, _, value = request.headers.get("authorization", "").partition(" ")
    if not (scheme.lower() == "basic" and _is_right(request, _password(value))):
        message = "give the admin token as the password; any name will do"
        raise HTTPException(401, message, {"WWW-Authenticate": 'Basic realm="Tidegate", charset="UTF-8"'})


def _password(value: str) -> str:
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""


def _is_right(request: Request, token: str) -> bool:
    expected: str = request.app.state.service.admin_token
    return hmac.compare_digest(token.encode(), expected.encode())
