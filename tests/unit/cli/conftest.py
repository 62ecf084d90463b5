"""Commands on a data directory of the test's own, without a running service."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from cli_runs import Run
from click.testing import CliRunner, Result

from tidegate import handover
from tidegate.assembly import open_topics
from tidegate.cli.main import main
from tidegate.core.events import Event
from tidegate.ports import Record
from tidegate.settings import load


@pytest.fixture(autouse=True)
def _as_whoever_runs_the_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that root types acts as the service account as long as it lives. Here it shares its process with the
    tests, which must stay root's."""
    monkeypatch.setattr(handover, "act_as_owner", lambda *_: True)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Runs a command on the test's own data directory."""

    def invoke(*words: str, input: str | None = None) -> Result:
        return CliRunner().invoke(main, [*words, "--data", str(tmp_path / "data")], input=input)

    return invoke


@pytest.fixture
def journal(tmp_path: Path) -> Callable[..., None]:
    def append(*events: Event) -> None:
        data = tmp_path / "data"
        data.mkdir(exist_ok=True)
        settings = load(data)
        topics = open_topics(settings, data)
        topics.create(settings.metalog.topic, settings.metalog.partitions)
        topics.append(settings.metalog.topic, [Record(event.key, event.to_bytes()) for event in events])
        topics.close()

    return append
