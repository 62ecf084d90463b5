"""The gate before changes: when it is closed, for whom, and how it opens again."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tidegate.core.errors import Unavailable
from tidegate.gateway.changes.write_gate import WriteGate
from tidegate.gateway.operations.table import OPERATIONS
from tidegate.space import free_bytes

ALL_THERE_IS = 1 << 60  # more than any disk has: every place has less left than this


class Trouble:
    """A log that cannot be written while `lasts`."""

    def __init__(self) -> None:
        self.lasts = True
        self.probes = 0

    def probe(self) -> None:
        self.probes += 1
        if self.lasts:
            raise Unavailable("still broken")


def gate(places: list[Path], reserve: int = 0, trouble: Trouble | None = None, *, notes: bool = False) -> WriteGate:
    probe = trouble.probe if trouble is not None else lambda: None
    return WriteGate(
        places, reserve, probe_notes=probe if notes else lambda: None, probe_log=lambda: None if notes else probe()
    )


def look(closed: WriteGate) -> None:
    asyncio.run(closed.look())


def is_open(asked: WriteGate, pool: Path, *, removes: bool = False) -> bool:
    try:
        asked.check(str(pool), removes=removes)
    except Unavailable:
        return False
    return True


@pytest.mark.parametrize("notes", [False, True])
def test_a_failure_closes_it_until_a_probe_succeeds(tmp_path: Path, notes: bool) -> None:
    trouble = Trouble()
    asked = gate([tmp_path], trouble=trouble, notes=notes)
    look(asked)
    assert trouble.probes == 0, "nothing has failed yet"
    asked.close("the disk is full")
    assert not is_open(asked, tmp_path)
    assert not is_open(asked, tmp_path, removes=True)
    look(asked)
    assert not is_open(asked, tmp_path)
    trouble.lasts = False
    look(asked)
    assert is_open(asked, tmp_path)
    look(asked)
    assert trouble.probes == 2


def test_a_probe_that_fails_in_an_odd_way_leaves_it_closed_and_is_repeated(tmp_path: Path) -> None:
    def fails_oddly() -> None:
        raise ValueError("odd")

    asked = WriteGate([tmp_path], 0, probe_notes=lambda: None, probe_log=fails_oddly)
    asked.close("first")
    look(asked)
    assert not is_open(asked, tmp_path)


def test_a_failure_during_the_probe_is_not_forgotten(tmp_path: Path) -> None:
    def fails_elsewhere() -> None:
        asked.close("once more")

    asked = WriteGate([tmp_path], 0, probe_notes=lambda: None, probe_log=fails_elsewhere)
    asked.close("first")
    look(asked)
    assert not is_open(asked, tmp_path)


def test_too_little_space_for_the_log_closes_it_for_all_pools(tmp_path: Path) -> None:
    asked = gate([tmp_path], ALL_THERE_IS)
    look(asked)
    assert not is_open(asked, tmp_path / "a pool that cannot be looked at")


def test_too_little_space_in_a_pool_closes_it_for_that_pool(tmp_path: Path) -> None:
    asked = gate([], ALL_THERE_IS)
    assert is_open(asked, tmp_path), "nobody has looked yet"
    look(asked)
    assert not is_open(asked, tmp_path)
    assert is_open(asked, tmp_path / "a pool that cannot be looked at")


def test_deletes_may_use_most_of_the_reserve(tmp_path: Path) -> None:
    free = free_bytes(tmp_path)
    assert free is not None
    asked = gate([tmp_path], 2 * free)
    look(asked)
    assert not is_open(asked, tmp_path)
    assert is_open(asked, tmp_path, removes=True)
    asked = gate([tmp_path], 8 * free)
    look(asked)
    assert not is_open(asked, tmp_path, removes=True)


def test_a_body_must_fit_in_beside_the_reserve(tmp_path: Path) -> None:
    free = free_bytes(tmp_path)
    assert free is not None
    asked = gate([], free // 2)
    asked.check(str(tmp_path), removes=False, size=2 * free)  # nobody has looked yet
    look(asked)
    asked.check(str(tmp_path), removes=False, size=free // 4)
    with pytest.raises(Unavailable):
        asked.check(str(tmp_path), removes=False, size=free * 3 // 4)


def test_no_reserve_means_no_look_at_space(tmp_path: Path) -> None:
    asked = gate([tmp_path], 0)
    look(asked)
    assert is_open(asked, tmp_path)


def test_which_operations_pass_it() -> None:
    free = {name for name, operation in OPERATIONS.items() if not operation.changes}
    assert free == {name for name in OPERATIONS if name.startswith(("Get", "Head", "List", "Cors", "Describe"))}
    removing = {name for name, operation in OPERATIONS.items() if operation.removes}
    assert {"DeleteObject", "DeleteObjects", "DeleteBucket", "AbortMultipartUpload"} <= removing
    assert removing.isdisjoint({"PutObject", "CopyObject", "UploadPart", "CompleteMultipartUpload", "CreateBucket"})
