"""The boundaries between the parts of the package, read from the import statements."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "tidegate"


def modules() -> dict[str, set[str]]:
    """Every module of the package with what it imports, anywhere in its text."""
    found = {}
    for file in PACKAGE.rglob("*.py"):
        parts = ["tidegate", *file.relative_to(PACKAGE).with_suffix("").parts]
        if parts[-1] == "__init__":
            parts.pop()
        found[".".join(parts)] = set(imports(ast.parse(file.read_text())))
    return found


def imports(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield name.name
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where a module comes from"
            yield str(node.module)
            for name in node.names:
                yield f"{node.module}.{name.name}"


def within(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)


def offenders(layer: str, *forbidden: str, unless: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{module} imports {name}"
        for module, names in modules().items()
        if within(module, layer) and not within(module, *unless)
        for name in sorted(names)
        if within(name, *forbidden)
    ]


def test_the_core_imports_nothing_but_itself_the_standard_library_and_pure_functions() -> None:
    foreign = [
        f"{module} imports {name}"
        for module, names in modules().items()
        if within(module, "tidegate.core")
        for name in sorted(names)
        if not within(name, "tidegate.core", "defusedxml", "awscrt.checksums", "msgspec", "cronsim")
        if name.split(".")[0] not in sys.stdlib_module_names and name not in ("tidegate", "awscrt")
    ]
    assert foreign == []


def test_the_core_does_no_input_or_output_and_reads_no_clock() -> None:
    shell = ("socket", "subprocess", "asyncio", "threading", "time", "sqlite3", "pathlib", "os", "random", "secrets")
    assert offenders("tidegate.core", *shell) == []


def test_nothing_imports_the_command_line() -> None:
    assert offenders("tidegate", "tidegate.cli", unless=("tidegate.cli",)) == []


def test_adapters_are_built_only_by_the_assembly() -> None:
    unless = ("tidegate.adapters", "tidegate.assembly")
    assert offenders("tidegate", "tidegate.adapters", unless=unless) == []


def test_libraries_of_servers_are_used_only_by_adapters() -> None:
    assert offenders("tidegate", "redis", "confluent_kafka", "sqlite3", unless=("tidegate.adapters",)) == []


def test_adapters_know_no_service() -> None:
    names = ("gateway", "pools", "web", "lifecycle", "movement", "replication")
    assert offenders("tidegate.adapters", *(f"tidegate.{name}" for name in names)) == []


def test_movement_knows_nothing_of_replication_but_that_its_threads_run_beside_its_own() -> None:
    assert offenders("tidegate.movement", "tidegate.replication", unless=("tidegate.movement.serve",)) == []


def test_the_pipeline_imports_no_worker_and_only_the_pipeline_imports_spark() -> None:
    names = ("workers", "lifecycle", "movement", "gateway", "pools")
    assert offenders("tidegate.pipeline", *(f"tidegate.{name}" for name in names)) == []
    assert offenders("tidegate", "pyspark", unless=("tidegate.pipeline",)) == []


def test_pools_and_gateway_do_not_depend_on_the_web_service_or_the_supervisor() -> None:
    assert offenders("tidegate.pools", "tidegate.gateway", "tidegate.web", "tidegate.supervisor") == []
    assert offenders("tidegate.gateway", "tidegate.web", "tidegate.supervisor") == []


def test_leases_and_workers_know_no_service() -> None:
    services = [
        f"tidegate.{name}" for name in ("gateway", "pools", "web", "lifecycle", "replication", "pipeline", "supervisor")
    ]
    for layer in ("tidegate.lease", "tidegate.workers"):
        assert offenders(layer, *services) == []
    assert offenders("tidegate.lease", "tidegate.workers") == []


def test_metrics_are_defined_in_one_place() -> None:
    assert offenders("tidegate", "prometheus_client", unless=("tidegate.metrics", "tidegate.metric_files")) == []


def test_no_module_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert [module for module in modules() if drawers & set(module.split("."))] == []
