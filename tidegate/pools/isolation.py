"""The check that the system can isolate backends from other users."""

from __future__ import annotations

from tidegate.core.errors import Unavailable
from tidegate.pools.backends.child import namespace_problem
from tidegate.pools.owners import find_account
from tidegate.service_account import Identity, as_root
from tidegate.settings import PoolsSettings


def check_isolation(settings: PoolsSettings, service: Identity | None) -> None:
    """Raises `Unavailable` when backends are to run in namespaces and the system gives none. It is tried as the service
    account, if the service has one, and otherwise as this user."""
    if settings.isolation != "namespace":
        return
    account = find_account(service.user, "") if service is not None else None
    with as_root():  # to become the account for good
        problem = namespace_problem(account)
    if problem:
        raise Unavailable(
            f"backends cannot be kept apart from other users of this machine: {problem}. Allow user namespaces "
            "(sysctl user.max_user_namespaces, user.max_net_namespaces, kernel.unprivileged_userns_clone, "
            "kernel.apparmor_restrict_unprivileged_userns), or accept ports that ask for certificates instead: "
            'pools.isolation = "certificates"'
        )
