"""When members of consumer groups were last heard of: a number per member, in memory that all processes share.

Members renew their leases without a system call, however many they are. Leases are measured with the monotonic clock,
which all processes of a machine share and which no change of the time of day disturbs; after a reboot it begins anew,
and a lease from the future is known to be dead.
"""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from tidegate.core.errors import Unavailable
from tidegate.shared_numbers import SharedNumbers

MOST_MEMBERS = 4096
_NS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Member:
    """`slot` is which of the numbers is the member's. The id is never used again, the slot is."""

    id: int
    slot: int
    lease: float


class MemberLeases:
    def __init__(self, file: Path) -> None:
        self._heard_at = SharedNumbers(file, MOST_MEMBERS)

    @staticmethod
    def free_slot(taken: Collection[int]) -> int:
        for slot in range(MOST_MEMBERS):
            if slot not in taken:
                return slot
        raise Unavailable(f"there are {MOST_MEMBERS} consumers already; end some")

    def renew(self, slot: int, now: float | None = None) -> None:
        self._heard_at[slot] = int((time.monotonic() if now is None else now) * _NS)

    def is_alive(self, member: Member, now: float) -> bool:
        heard_at = self._heard_at[member.slot] / _NS
        return heard_at <= now < heard_at + member.lease
