from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client import Histogram
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from tidegate import metrics

COUNTS = """
import os
from tidegate import metrics
metrics.REQUESTS.labels("GetObject", "2xx").inc(3)
metrics.CONNECTIONS.set(7)
durations = metrics.Durations(metrics.REQUEST_SECONDS)
durations.observe(0.02)
durations.flush()
print(os.getpid())
"""


def counting_process(directory: Path) -> int:
    """A process that counted something and died; its id."""
    environment = os.environ | {metrics.MULTIPROCESS_VARIABLE: str(directory)}
    done = subprocess.run([sys.executable, "-c", COUNTS], env=environment, capture_output=True, text=True, check=True)
    return int(done.stdout)


def rendered(directory: Path) -> dict[str, float]:
    program = "import sys; from tidegate import metrics; sys.stdout.buffer.write(metrics.render())"
    environment = os.environ | {metrics.MULTIPROCESS_VARIABLE: str(directory)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(done.stdout)
        for sample in family.samples
    }


def test_the_counts_of_several_processes_are_added_up(tmp_path: Path) -> None:
    counting_process(tmp_path)
    counting_process(tmp_path)
    found = rendered(tmp_path)
    assert found["tidegate_requests_total[GetObject][2xx]"] == 6
    assert found["tidegate_request_seconds_count"] == 2


def test_a_dead_process_keeps_its_totals_and_loses_its_gauges_and_files(tmp_path: Path) -> None:
    pids = [counting_process(tmp_path) for _ in range(2)]
    for pid in pids:
        metrics.retire(tmp_path, pid, "gateway")
    found = rendered(tmp_path)
    assert found["tidegate_requests_total[GetObject][2xx]"] == 6
    assert found["tidegate_request_seconds_count"] == 2
    assert found["tidegate_child_restarts_total[gateway]"] == 2
    assert found.get("tidegate_connections", 0) == 0
    assert not [file for pid in pids for file in tmp_path.glob(f"*_{pid}.db")]


def test_retiring_a_process_without_files_only_counts_it(tmp_path: Path) -> None:
    metrics.retire(tmp_path, 99_999_999, "api")
    assert rendered(tmp_path)["tidegate_child_restarts_total[api]"] == 1


@pytest.mark.parametrize("left", [b"", b"\x40", b"\xff\xff\0\0" + bytes(4) + b"\xff\xff\0\0"])
def test_a_file_that_a_process_left_unfinished_harms_nobody(tmp_path: Path, left: bytes) -> None:
    (tmp_path / "counter_99999999.db").write_bytes(left)
    metrics.retire(tmp_path, 99_999_999, "api")
    assert rendered(tmp_path)["tidegate_child_restarts_total[api]"] == 1


def test_durations_count_as_the_histogram_itself_would() -> None:
    registry = CollectorRegistry()
    direct = Histogram("direct", "", buckets=(0.1, 1), registry=registry)
    summed = Histogram("summed", "", buckets=(0.1, 1), registry=registry)
    durations = metrics.Durations(summed)
    for seconds in (0.0, 0.1, 0.100001, 1.0, 5.0):
        direct.observe(seconds)
        durations.observe(seconds)
    durations.flush()
    durations.flush()
    for suffix, labels in (("_sum", {}), ("_count", {}), *(("_bucket", {"le": le}) for le in ("0.1", "1.0", "+Inf"))):
        expected = registry.get_sample_value(f"direct{suffix}", labels)
        assert registry.get_sample_value(f"summed{suffix}", labels) == expected
