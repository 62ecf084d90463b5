from __future__ import annotations

from dataclasses import replace

import pytest

from tidegate.core import pool_states
from tidegate.core.pool_states import MOST_PASSING_FAILURES, disabling_reason, judge, start_failed, started
from tidegate.core.records import Pool, PoolState, PoolStatus

POOL = Pool("p", "ann", "staff", "/srv/p", "seaweedfs", created_at=0.0)
READY = PoolStatus(PoolState.READY, "", 5.0)
INOPERABLE = PoolStatus(PoolState.INOPERABLE, "no such directory", 5.0)


@pytest.mark.parametrize(
    ("pool", "permitted", "now", "reason"),
    [
        (POOL, True, 10.0, None),
        (replace(POOL, online=False), True, 10.0, "offline"),
        (replace(POOL, expires_at=10.0), True, 10.0, "expired"),
        (replace(POOL, expires_at=10.0), True, 9.999, None),
        (POOL, False, 10.0, "owner denied"),
        (replace(POOL, online=False, expires_at=1.0), False, 10.0, "offline"),
    ],
)
def test_a_pool_is_disabled_while_offline_expired_or_its_owner_denied(
    pool: Pool, permitted: bool, now: float, reason: str | None
) -> None:
    assert disabling_reason(pool, owner_permitted=permitted, now=now) == reason


def test_a_pool_without_state_becomes_initial() -> None:
    verdict = judge(POOL, None, owner_permitted=True, now=9.0)
    assert verdict.may_run
    assert verdict.status == PoolStatus(PoolState.INITIAL, "", 9.0)


def test_a_ready_pool_stays_as_it_is() -> None:
    verdict = judge(POOL, READY, owner_permitted=True, now=9.0)
    assert verdict.may_run
    assert verdict.status is None


def test_a_ready_pool_taken_offline_becomes_disabled_and_initial_again_when_it_is_online() -> None:
    disabled = judge(replace(POOL, online=False), READY, owner_permitted=True, now=9.0)
    assert disabled.status == PoolStatus(PoolState.DISABLED, "offline", 9.0)
    assert not disabled.may_run
    back = judge(POOL, disabled.status, owner_permitted=True, now=11.0)
    assert back.status == PoolStatus(PoolState.INITIAL, "", 11.0)
    assert back.may_run


def test_a_disabled_pool_is_recorded_again_only_when_the_reason_changes() -> None:
    offline = PoolStatus(PoolState.DISABLED, "offline", 1.0)
    assert judge(replace(POOL, online=False), offline, owner_permitted=True, now=9.0).status is None
    changed = judge(POOL, offline, owner_permitted=False, now=9.0)
    assert changed.status == PoolStatus(PoolState.DISABLED, "owner denied", 9.0)


def test_inoperable_is_a_dead_end_whatever_else_changes() -> None:
    for pool in (POOL, replace(POOL, online=False), replace(POOL, expires_at=1.0)):
        verdict = judge(pool, INOPERABLE, owner_permitted=True, now=9.0)
        assert (verdict.status, verdict.may_run, verdict.reason) == (None, False, "no such directory")


def test_a_reset_leads_out_of_inoperable() -> None:
    verdict = judge(POOL, pool_states.reset(now=7.0), owner_permitted=True, now=9.0)
    assert verdict.may_run


def test_a_definite_failure_makes_a_pool_inoperable_at_once() -> None:
    assert start_failed(READY, "no such directory", definite=True, now=3.0) == PoolStatus(
        PoolState.INOPERABLE, "no such directory", 3.0
    )


def test_passing_failures_make_a_pool_inoperable_only_when_they_go_on() -> None:
    status: PoolStatus | None = READY
    for count in range(1, MOST_PASSING_FAILURES):
        status = start_failed(status, "ports: in use", definite=False, now=float(count))
        assert status.state == PoolState.INITIAL
        assert judge(POOL, status, owner_permitted=True, now=9.0).may_run
    status = start_failed(status, "ports: in use", definite=False, now=9.0)
    assert status.state == PoolState.INOPERABLE
    assert "ports: in use" in status.reason


def test_a_success_forgets_earlier_failures() -> None:
    failed = start_failed(None, "x", definite=False, now=1.0)
    ready = started(failed, now=2.0)
    assert ready == PoolStatus(PoolState.READY, "", 2.0)
    again = start_failed(ready, "x", definite=False, now=3.0)
    assert again == replace(failed, modified_at=3.0)


def test_a_start_of_a_ready_pool_changes_nothing() -> None:
    assert started(READY, now=9.0) is None
