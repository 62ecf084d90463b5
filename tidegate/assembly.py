"""Builds the adapters that the settings name."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tidegate.adapters.file_topics import FileTopics
from tidegate.adapters.sqlite_tables import SqliteTables
from tidegate.core.errors import Conflict
from tidegate.ports import Store, Tables, Topics

if TYPE_CHECKING:
    # Workers of Spark that open a store have no use for the settings, which take long to load.
    from tidegate.adapters.s3_requests import Throttle
    from tidegate.core.locations import Location
    from tidegate.settings import Settings

TABLES_FILE = "tables.db"
TOPICS_DIRECTORY = "topics"


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
        # Only here, so that a service on files does not load the Kafka library into every process.
        from tidegate.adapters.kafka_topics import KafkaTopics

        return KafkaTopics(
            chosen.kafka_servers,
            prefix=chosen.kafka_prefix,
            replication=chosen.kafka_replication,
            lease_seconds=chosen.lease_seconds,
            options={name: value.get_secret_value() for name, value in chosen.kafka_options.items()},
        )
    _refuse_earlier_topics(data)
    return FileTopics(data / TOPICS_DIRECTORY, lease_seconds=chosen.lease_seconds)


def _refuse_earlier_topics(data: Path) -> None:
    """What is in the file must not be passed over in silence: the log would seem to begin anew."""
    earlier = data / "topics.db"
    if earlier.exists():
        raise Conflict(
            f"{earlier} holds topics that an earlier version kept in SQLite, which this one cannot read: "
            "start on a new data directory, or go on with the earlier version"
        )


def embedded_files(settings: Settings, data: Path) -> list[Path]:
    """The places in which tables and topics lie on this machine."""
    files = []
    if settings.tables.backend == "sqlite":
        files.append(data / TABLES_FILE)
    if settings.topics.backend == "files":
        files.append(data / TOPICS_DIRECTORY)
    return files


def open_location(
    location: Location, secret: str, throttle: Throttle | None = None, *, timeout: float | None = None
) -> Store:
    """The objects behind a location, whose certificate is verified. `timeout` is in seconds."""
    from tidegate.adapters.s3_endpoint import LOCATION_TIMEOUT_SECONDS, verified_tls
    from tidegate.adapters.s3_store import S3Store

    return S3Store(
        location.endpoint,
        location.access_key,
        secret,
        region=location.region,
        tls=verified_tls(location.ca_file) if location.is_secure else None,
        timeout=timeout or LOCATION_TIMEOUT_SECONDS,
        throttle=throttle,
    )


def open_store(url: str, access_key: str, secret: str) -> Store:
    """The objects behind an S3 endpoint, seen with that key."""
    # Only here: most processes have no use for an HTTP client.
    from tidegate.adapters.s3_store import S3Store

    return S3Store(url, access_key, secret)
