"""How a run's tests are spread over its workers.

A module runs on one worker. Modules that use the same costly servers run on one worker as well, so that these start
once. What takes longest begins first, so that no worker is left with it at the end.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadFileScheduling

# What starts once per worker, by the modules that use it; folders stand for all of their modules.
SHARED = {
    "a broker": ("tests/contract/",),
    "a Spark session": (
        "tests/unit/pipeline/",
        "tests/integration/pipeline/",
        "tests/unit/lifecycle/passes/test_lifecycle_spark_engine.py",
    ),
    "an impatient gateway": (
        "tests/integration/gateway/test_gateway_access.py",
        "tests/integration/gateway/test_gateway_form_uploads.py",
        "tests/integration/gateway/test_gateway_life.py",
        "tests/integration/gateway/test_gateway_limits.py",
    ),
    "short days": (
        "tests/integration/lifecycle/test_action_kinds.py",
        "tests/integration/lifecycle/test_lifecycle_commands.py",
        "tests/integration/lifecycle/test_pass_reports.py",
    ),
}
# Modules and folders of half a minute and more, the longest first, each with those that share its servers.
LONGEST = (
    "tests/unit/pipeline/",
    "tests/integration/lifecycle/test_action_kinds.py",
    "tests/integration/service/test_full_disk.py",
    "tests/integration/movement/test_transitions.py",
    "tests/integration/lifecycle/test_pass_kills.py",
    "tests/integration/replication/test_backfill_and_verify.py",
    "tests/probe/test_move_kills.py",
    "tests/probe/test_replication_kills.py",
    "tests/integration/movement/test_undelete.py",
    "tests/integration/replication/test_site_down.py",
    "tests/integration/replication/test_two_sites.py",
    "tests/integration/lifecycle/test_taken_back.py",
    "tests/integration/lifecycle/test_passes_on_clusters.py",
    "tests/contract/",
    "tests/integration/lifecycle/test_seeing_passes.py",
    "tests/integration/clients/test_syncs.py",
    "tests/integration/movement/test_location_audits.py",
    "tests/integration/movement/test_moved_generated.py",
    "tests/integration/gateway/test_gateway_listings.py",
    "tests/integration/service/test_supervisor.py",
    "tests/integration/pools/test_manager_life.py",
    "tests/integration/gateway/test_gateway_life.py",
    "tests/integration/service/test_least_privilege.py",
    "tests/integration/lifecycle/test_lifecycle_faults.py",
    "tests/integration/clients/test_command_line_clients.py",
    "tests/integration/gateway/test_gateway_connections.py",
    "tests/probe/",
    "tests/integration/pools/",
    "tests/integration/gateway/test_gateway_healing.py",
    "tests/integration/gateway/test_gateway_on_redis.py",
)


def unit_of(nodeid: str) -> str:
    """What runs on one worker with this test."""
    module = nodeid.split("::", 1)[0]
    return next((name for name, places in SHARED.items() if module.startswith(places)), module)


def begin_with_the_longest(items: list[pytest.Item]) -> None:
    """The order in which workers take modules up is the order of the collected tests."""
    first = [
        next((n for n, place in enumerate(LONGEST) if item.nodeid.startswith(place)), len(LONGEST)) for item in items
    ]
    items[:] = [item for _, item in sorted(zip(first, items, strict=True), key=lambda pair: pair[0])]


class Spreading(LoadFileScheduling):
    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)
