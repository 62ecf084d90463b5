"""What every adapter accepts: one set of rules, so that changing the server changes no behaviour.

Each check raises `InvalidInput` before anything is sent. The sizes are chosen to fit a Kafka
broker with its default limits, also after a message became a dead letter (base64 in JSON).
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from tidegate.core.errors import InvalidInput
from tidegate.ports import Record

MAX_TABLE_KEY_BYTES = 8192
MAX_MESSAGE_KEY_BYTES = 8192
MAX_MESSAGE_BYTES = 640 * 1024
MAX_EXPIRY_SECONDS = 100 * 366 * 86400.0
MAX_PARTITIONS = 1024
DEAD_LETTERS_SUFFIX = ".dead-letters"
RETRY_SUFFIX = ".retry"

# Together with a prefix of 40 characters, what adapters add stays below Kafka's limit of 249.
_TOPIC = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}(\.dead-letters){0,2}")
_GROUP = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")


def utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidInput(f"{what} cannot be written as UTF-8: {text!r}") from None


def table_key(key: str) -> bytes:
    """The key as the bytes by which it is ordered."""
    encoded = utf8(key, "the key")
    if not encoded:
        raise InvalidInput("a key must not be empty")
    if len(encoded) > MAX_TABLE_KEY_BYTES:
        raise InvalidInput(f"a key has at most {MAX_TABLE_KEY_BYTES} bytes, this one has {len(encoded)}")
    return encoded


def prefix_end(prefix: bytes) -> bytes:
    """The least byte string above all that begin with `prefix`, which must not be empty.

    UTF-8 never holds the byte 0xFF, so the last byte can always be raised by one.
    """
    return prefix[:-1] + bytes([prefix[-1] + 1])


def expiry(seconds: float) -> float:
    if not (math.isfinite(seconds) and 0 < seconds <= MAX_EXPIRY_SECONDS):
        raise InvalidInput(f"expires_in is a positive number of seconds, not {seconds!r}")
    return seconds


def scan_limit(limit: int) -> int:
    if limit < 1:
        raise InvalidInput(f"a limit is at least 1, not {limit}")
    return limit


def topic_name(name: str) -> str:
    if not _TOPIC.fullmatch(name):
        raise InvalidInput(
            f"a topic's name has up to 100 letters, digits, dots, dashes and underscores and begins with a letter "
            f"or digit, unlike {name!r}"
        )
    if name.endswith(RETRY_SUFFIX):
        raise InvalidInput(f"names that end in {RETRY_SUFFIX!r} are kept for the groups' own topics: {name!r}")
    return name


def group_name(name: str) -> str:
    # Without dots, `<topic>.<group>.retry` can be read in one way only.
    if not _GROUP.fullmatch(name):
        raise InvalidInput(
            f"a group's name has up to 40 letters, digits, dashes and underscores and begins with a letter "
            f"or digit, unlike {name!r}"
        )
    return name


def partition_count(partitions: int) -> int:
    if not 1 <= partitions <= MAX_PARTITIONS:
        raise InvalidInput(f"a topic has 1 to {MAX_PARTITIONS} partitions, not {partitions}")
    return partitions


def message_keys(records: Sequence[Record]) -> list[bytes]:
    """The keys of a batch as bytes, once every record of it is found to be acceptable."""
    keys = [utf8(record.key, "the key") for record in records]
    for key, record in zip(keys, records, strict=True):
        if len(key) > MAX_MESSAGE_KEY_BYTES:
            raise InvalidInput(f"a message's key has at most {MAX_MESSAGE_KEY_BYTES} bytes, this one has {len(key)}")
        if len(record.value) > MAX_MESSAGE_BYTES:
            raise InvalidInput(f"a message has at most {MAX_MESSAGE_BYTES} bytes, this one has {len(record.value)}")
    return keys
