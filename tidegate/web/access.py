"""Who may use the API: whoever holds the admin token."""

from __future__ import annotations

import hmac
from typing import Annotated

from fastapi import Depends, HTTPException, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

_bearer = HTTPBearer(auto_error=False, description="The admin token: `admin_token` in `run/endpoints.json`.")

GivenToken = Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]


def require_token(request: Request, given: GivenToken) -> None:
    if given is None:
        raise HTTPException(401, "send the header Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"})
    expected: str = request.app.state.service.admin_token
    if not hmac.compare_digest(given.credentials.encode(), expected.encode()):
        raise HTTPException(403, "the token is wrong")
