"""What the Kafka adapter leaves on the cluster, and what it says when the cluster fails it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType
from contract_groups import gather

from tidegate.adapters import kafka_consumer
from tidegate.adapters.kafka_topics import KafkaTopics
from tidegate.core.errors import InvalidInput, Unavailable
from tidegate.ports import Record


@pytest.fixture
def prefix() -> str:
    return f"{uuid.uuid4().hex[:8]}."


@pytest.fixture
def topics(kafka_address: str, prefix: str) -> Iterator[KafkaTopics]:
    opened = KafkaTopics(kafka_address, prefix=prefix, lease_seconds=2)
    yield opened
    opened.close()


@pytest.fixture
def admin(kafka_address: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": kafka_address})


def test_group_keeps_its_retries_in_a_topic_of_its_own(topics: KafkaTopics, admin: AdminClient, prefix: str) -> None:
    topics.create("t", 3)
    topics.append("t", [Record("k", b"v")])
    consumer = topics.consumer("t", "g")
    consumer.retry_later(gather(consumer, 1)[0], not_before=time.time() + 60)
    consumer.close()
    found = admin.list_topics(timeout=10).topics
    assert {name for name in found if name.startswith(prefix)} == {f"{prefix}t", f"{prefix}t.g.retry"}
    assert len(found[f"{prefix}t.g.retry"].partitions) == 3
    assert topics.names() == ["t"]


def test_topic_is_kept_for_ever_and_synced_where_it_has_no_replica(
    topics: KafkaTopics, admin: AdminClient, prefix: str
) -> None:
    topics.create("t", 1)
    [future] = admin.describe_configs([ConfigResource(ResourceType.TOPIC, f"{prefix}t")]).values()
    settings = {name: entry.value for name, entry in future.result(20).items()}
    assert settings["retention.ms"] == "-1"
    assert settings["flush.messages"] == "1"


def test_installations_on_one_cluster_do_not_see_each_other(topics: KafkaTopics, kafka_address: str) -> None:
    other = KafkaTopics(kafka_address, prefix=f"{uuid.uuid4().hex[:8]}.")
    topics.create("t", 1)
    other.create("t", 2)
    topics.append("t", [Record("k", b"mine")])
    assert other.bounds("t") == [(0, 0), (0, 0)]
    assert other.names() == topics.names() == ["t"]
    other.close()


def test_finished_retries_are_removed_from_the_retry_topic(
    topics: KafkaTopics, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_consumer, "TRIM_RETRIES_EVERY", 5)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"v")])
    consumer = topics.consumer("t", "g")
    for _ in range(6):
        consumer.retry_later(gather(consumer, 1)[0], not_before=0)
    consumer.close()
    [(first, end)] = topics._cluster.bounds(f"{prefix}t.g.retry")
    assert end == 6
    assert first == 5
    assert topics.lag("t", "g") == 1


def test_retries_beyond_the_memory_allowed_wait_on_the_broker(
    topics: KafkaTopics, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka_consumer, "MAX_WAITING_BYTES", 5000)
    topics.create("t", 1)
    topics.append("t", [Record("k", b"%03d" % number + b"x" * 500) for number in range(30)])
    consumer = topics.consumer("t", "g")
    messages = gather(consumer, 30)
    not_before = time.time() + 12
    for message in messages:
        consumer.retry_later(message, not_before=not_before)
    for _ in range(15):
        assert consumer.poll(2, 0.05) == []
    assert 0 < consumer._holdings.waiting_bytes < 10_000  # type: ignore[attr-defined]
    again = []
    while len(again) < 30:
        batch = gather(consumer, 1, limit=1)
        again += batch
        consumer.acknowledge(batch)
    assert time.time() >= not_before
    assert sorted(message.offset for message in again) == list(range(30))
    assert topics.lag("t", "g") == 0
    consumer.close()


def test_lease_that_the_broker_refuses_is_explained(kafka_address: str, prefix: str) -> None:
    topics = KafkaTopics(kafka_address, prefix=prefix, lease_seconds=0.2)
    topics.create("t", 1)
    consumer = topics.consumer("t", "g")
    with pytest.raises(InvalidInput, match="lease_seconds"):
        gather(consumer, 1)
    consumer.close()
    topics.close()


def test_absent_cluster_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidegate.adapters.kafka_client.REQUEST_SECONDS", 0.5)
    topics = KafkaTopics("127.0.0.1:1")
    with pytest.raises(Unavailable, match="Kafka"):
        topics.names()
    with pytest.raises(Unavailable, match="Kafka"):
        topics.append("t", [Record("k", b"v")])
    topics.close()


def test_unusable_client_option_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"no\.such\.option"):
        KafkaTopics("127.0.0.1:1", options={"no.such.option": "1"})
