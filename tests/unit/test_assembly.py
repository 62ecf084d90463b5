from __future__ import annotations

from pathlib import Path

import pytest

from tidegate.adapters.kafka_topics import KafkaTopics
from tidegate.adapters.redis_tables import RedisTables
from tidegate.assembly import open_tables, open_topics
from tidegate.core.errors import Conflict
from tidegate.ports import Record
from tidegate.settings import Settings, dump, load, restore


def test_embedded_stores_lie_in_the_data_directory(tmp_path: Path) -> None:
    tables, topics = open_tables(Settings(), tmp_path), open_topics(Settings(), tmp_path)
    tables.put("k", "v")
    topics.create("t", 1)
    topics.append("t", [Record("k", b"v")])
    assert (tmp_path / "tables.db").exists()
    assert (tmp_path / "topics").is_dir()
    tables.close()
    topics.close()


def test_topics_of_an_earlier_version_are_not_passed_over(tmp_path: Path) -> None:
    (tmp_path / "topics.db").write_text("")
    with pytest.raises(Conflict, match="earlier version"):
        open_topics(Settings(), tmp_path)
    assert not (tmp_path / "topics").exists()


def test_settings_choose_servers(tmp_path: Path) -> None:
    chosen = load(
        tmp_path,
        overrides=(
            "tables.backend=redis",
            "tables.redis_namespace=north",
            "topics.backend=kafka",
            'topics.kafka_options={"socket.timeout.ms": "5000"}',
        ),
    )
    restored = restore(dump(chosen))
    tables, topics = open_tables(restored, tmp_path), open_topics(restored, tmp_path)
    assert isinstance(tables, RedisTables)
    assert isinstance(topics, KafkaTopics)
    assert topics._settings["socket.timeout.ms"] == "5000"
    tables.close()
    topics.close()
