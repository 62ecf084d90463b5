"""The form of a dead letter, the same whatever keeps the topics."""

from __future__ import annotations

import base64
import json

from tidegate.adapters.limits import DEAD_LETTERS_SUFFIX
from tidegate.ports import Message, Record

# Dead letters are few and read by people: one partition keeps them in order.
PARTITIONS = 1
MAX_REASON_CHARACTERS = 4000


def topic_for(topic: str) -> str:
    return topic + DEAD_LETTERS_SUFFIX


def letter(message: Message, group: str, reason: str) -> Record:
    """Everything an operator needs to judge the message and to send it back where it came from."""
    content = {
        "key": message.key,
        "value": base64.b64encode(message.value).decode(),
        "reason": reason[:MAX_REASON_CHARACTERS],
        "attempt": message.attempt,
        "group": group,
        "origin": {"topic": message.topic, "partition": message.partition, "offset": message.offset},
        "appended_at": message.appended_at,
    }
    return Record(message.key, json.dumps(content, sort_keys=True).encode())
