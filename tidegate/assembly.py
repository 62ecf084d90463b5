"""Builds the adapters that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.adapters.sqlite_topics import SqliteTopics
from tidegate.ports import Store, Tables, Topics

if TYPE_CHECKING:
    # Workers of Spark that open a store have no use for the settings, which take long to load.
    from tidegate.settings import Settings

TABLES_FILE = "tables.db"
TOPICS_FILE = "topics.db"


def open_tables(settings: Settings, data: Path) -> Tables:
    """The tables of the service whose data directory is `data`."""
    if settings.tables.backend == "redis":
        # Only here: its library takes long to load, and users wait for the managers of their pools.
        from tidegate.adapters.redis_tables import RedisTables

        return RedisTables(settings.tables.redis_url.get_secret_value(), namespace=settings.tables.redis_namespace)
    return SqliteTables(data / TABLES_FILE)


def open_topics(settings: Settings, data: Path) -> Topics:
    """The topics of the service whose data directory is `data`."""
    chosen = settings.topics
    if chosen.backend == "kafka":
        # Only here, so that a service on SQLite does not load the Kafka library into every process.
        from tidegate.adapters.kafka_topics import KafkaTopics

        return KafkaTopics(
            chosen.kafka_servers,
            prefix=chosen.kafka_prefix,
            replication=chosen.kafka_replication,
            lease_seconds=chosen.lease_seconds,
            options={name: value.get_secret_value() for name, value in chosen.kafka_options.items()},
        )
    return SqliteTopics(data / TOPICS_FILE, lease_seconds=chosen.lease_seconds)


def embedded_files(settings: Settings, data: Path) -> list[Path]:
    """The files in which tables and topics lie on this machine."""
    files = []
    if settings.tables.backend == "sqlite":
        files.append(data / TABLES_FILE)
    if settings.topics.backend == "sqlite":
        files.append(data / TOPICS_FILE)
    return files


def open_store(url: str, access_key: str, secret: str) -> Store:
    """The objects behind an S3 endpoint, seen with that key."""
    # Only here: most processes have no use for an HTTP client.
    from tidegate.adapters.s3_store import S3Store

    return S3Store(url, access_key, secret)
