"""Fixtures for every test: a shared running service, and services of one's own."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import hypothesis
import pytest
from running_service import PoolKey, RunningService
from second_store import SecondStore
from spreading import Spreading, begin_with_the_longest

MakeService = Callable[..., RunningService]

# In CI a change is judged by the same examples every time; everywhere else new ones are looked for.
hypothesis.settings.register_profile("ci", derandomize=True, deadline=None, print_blob=True)
hypothesis.settings.register_profile("here", deadline=None, print_blob=True)
hypothesis.settings.load_profile("ci" if os.environ.get("CI") else "here")


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Spreading:
    return Spreading(config, log)


@pytest.hookimpl(tryfirst=True)  # before markers are selected by
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker("spark")
    if hasattr(config, "workerinput"):
        begin_with_the_longest(items)


@pytest.fixture(autouse=True, scope="session")
def _clean_environment() -> Iterator[None]:
    """Settings and credentials of whoever runs the tests must not change them."""
    with pytest.MonkeyPatch.context() as patch:
        for name in list(os.environ):
            if name.startswith(("TIDEGATE_", "AWS_")):
                patch.delenv(name)
        # The JVMs of tests live too short for what the second compiler would gain, and it takes half of their time;
        # verifying the classes that they load takes a sixth.
        patch.setenv(
            "JDK_JAVA_OPTIONS",
            "-XX:TieredStopAtLevel=1 -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
        )
        yield


@pytest.fixture(autouse=True, scope="session")
def _patient_requests() -> Iterator[None]:
    """On a busy machine an answer may take longer than the five seconds that httpx waits."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("delete", "get", "post", "put", "request"):
            patch.setattr(httpx, name, partial(getattr(httpx, name), timeout=60))
        yield


@pytest.fixture(autouse=True)
def _usual_umask() -> Iterator[None]:
    """Commands that a test runs in its own process set the umask, which must not reach the next test."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.fixture(scope="session")
def service(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """One `tidegate up` for all tests of the session: make pools and buckets with names of your own."""
    running = RunningService(tmp_path_factory.mktemp("service") / "data")
    try:
        yield running.start()
    finally:
        running.end()


@pytest.fixture(scope="session")
def second_store(_clean_environment: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondStore]:
    """One bare SeaweedFS for all tests of the session: use prefixes or buckets of your own, and let it run."""
    store = SecondStore(tmp_path_factory.mktemp("second-store"))
    try:
        yield store.start()
    finally:
        store.stop()


@pytest.fixture
def make_store(tmp_path: Path) -> Iterator[Callable[..., SecondStore]]:
    """`make_store()` starts a bare SeaweedFS of the test's own, which it may stop and start; ended after it."""
    started: list[SecondStore] = []

    def make(**options: Any) -> SecondStore:
        store = SecondStore(tmp_path / f"store{len(started)}", **options)
        started.append(store)
        return store.start()

    yield make
    for store in started:
        store.stop()


@pytest.fixture
def make_service(tmp_path: Path) -> Iterator[MakeService]:
    """`make_service(gateway__processes=1)` starts a service of the test's own, ended after it."""
    started: list[RunningService] = []

    def make(data: Path | None = None, **settings: Any) -> RunningService:
        named = {name.replace("__", "."): value for name, value in settings.items()}
        running = RunningService(data or tmp_path / f"data{len(started)}", named)
        started.append(running)
        return running.start()

    yield make
    for running in started:
        running.end()


_numbers = itertools.count(1)


@pytest.fixture
def fresh_name() -> Callable[[str], str]:
    """Names for pools and buckets that no other test of the session uses."""
    return lambda prefix: f"{prefix}-{next(_numbers)}"


@pytest.fixture
def pool(service: RunningService, fresh_name: Callable[[str], str]) -> PoolKey:
    """A pool of the test's own on the shared service."""
    return service.create_pool(fresh_name("pool"))
