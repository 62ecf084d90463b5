"""Metrics of several processes in files, on disks that may be full."""

from __future__ import annotations

import os
from pathlib import Path

from full_disk import needs_small_disk, run_on_small_disk
from prometheus_client.mmap_dict import MmapedDict

from tidegate.metric_files import ValueFile, store, value_class

FULL = """
import os
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(disk)
from tidegate import metrics
from tidegate.core.errors import Unavailable

metrics.BYTES_IN.inc(1)
fill()
for number in range(3000):  # far more than was there before
    metrics.LIFECYCLE_DISPATCH.labels(f"bucket-{number}", "kind", "outcome").inc()
metrics.BYTES_IN.inc(2)
try:
    metrics.retire(disk, 99_999_999, "gateway")
except Unavailable as error:
    print(error)
assert "tidegate_received_bytes_total 3.0" in metrics.render().decode()
free()
for number in range(3000):
    metrics.LIFECYCLE_DISPATCH.labels(f"bucket-{number}", "kind", "outcome").inc()
metrics.retire(disk, 99_999_999, "gateway")
text = metrics.render().decode()
assert 'bucket="bucket-2999",kind="kind",outcome="outcome"} 2.0' in text
assert 'tidegate_child_restarts_total{component="gateway"} 1.0' in text
"""

FULL_FROM_THE_START = """
import os
os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(disk)
fill()
from tidegate import metrics

metrics.BYTES_IN.inc(1)
assert b"tidegate_received_bytes_total" not in metrics.render()
free()
metrics.BYTES_IN.inc(2)
assert b"tidegate_received_bytes_total 3.0" in metrics.render()
"""


def values_in(file: Path) -> dict[str, float]:
    return {key: value for key, value, _, _ in MmapedDict.read_all_values_from_file(str(file))}


@needs_small_disk
def test_counting_on_a_full_disk_kills_nobody_and_loses_nothing(tmp_path: Path) -> None:
    done = run_on_small_disk(FULL, tmp_path / "disk", size="2m")
    assert done.returncode == 0, done.stderr
    assert "cannot be written: No space left on device" in done.stdout


@needs_small_disk
def test_a_process_that_starts_on_a_full_disk_counts(tmp_path: Path) -> None:
    done = run_on_small_disk(FULL_FROM_THE_START, tmp_path / "disk", size="2m")
    assert done.returncode == 0, done.stderr


def test_a_file_of_a_process_that_had_the_same_number_is_gone_on_with(tmp_path: Path) -> None:
    first = ValueFile(tmp_path / "counter_1.db")
    first.write("a", 1.0, 0.0)
    first.close()
    again = ValueFile(tmp_path / "counter_1.db")
    assert again.found == {"a": 1.0}
    again.write("b", 2.0, 0.0)
    again.write("a", 3.0, 0.0)
    again.close()
    assert values_in(tmp_path / "counter_1.db") == {"a": 3.0, "b": 2.0}


def test_a_file_is_replaced_as_a_whole(tmp_path: Path) -> None:
    file = tmp_path / "counter_0.db"
    store(file, [("a", 1.0)])
    store(file, [("kéy", 2.0), ("c", 3.0)])
    assert values_in(file) == {"kéy": 2.0, "c": 3.0}
    assert list(tmp_path.iterdir()) == [file]


def test_a_forked_process_counts_from_nothing_in_a_file_of_its_own(tmp_path: Path) -> None:
    value = value_class(tmp_path)("counter", "m", "m_total", (), (), "Help.")
    value.inc(5)
    child = os.fork()
    if child == 0:
        value.inc(2)
        os._exit(0)
    os.waitpid(child, 0)
    other = os.fork()
    if other == 0:
        os._exit(0)
    os.waitpid(other, 0)
    assert not (tmp_path / f"counter_{other}.db").exists(), "one that counts nothing needs no file"
    found = {pid: list(values_in(tmp_path / f"counter_{pid}.db").values()) for pid in (os.getpid(), child)}
    assert found == {os.getpid(): [5.0], child: [2.0]}
