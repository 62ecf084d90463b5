"""Reading topics from offsets, without a consumer group: what was appended since then, and the newest records."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from tidegate.ports import Message, Topics

_PAGE = 1000
_T = TypeVar("_T")


def appended_since(topics: Topics, topic: str, offsets: Sequence[int]) -> Iterator[Message]:
    """What stands in the topic from these offsets on, one for each partition, up to where it ends now."""
    for partition, (first, following) in enumerate(topics.bounds(topic)):
        yield from messages(topics, topic, partition, max(first, offsets[partition]), following)


def messages(topics: Topics, topic: str, partition: int, offset: int, following: int) -> Iterator[Message]:
    """A topic may have gaps, and one that ends early was cut off meanwhile."""
    while offset < following:
        page = topics.read(topic, partition, offset, min(_PAGE, following - offset))
        if not page:
            return
        yield from page
        offset = page[-1].offset + 1


def newest(
    topics: Topics,
    topic: str,
    bounds: Sequence[tuple[int, int]],
    count: int,
    *,
    read: Callable[[bytes], _T],
    wanted: Callable[[_T], bool],
    moment_ns: Callable[[_T], int],
) -> list[_T]:
    """The newest `count` records within the bounds that are wanted, the oldest of them first."""
    found: list[_T] = []
    for partition, (first, following) in enumerate(bounds):
        left = count
        while following > first and left > 0:
            offset = max(first, following - _PAGE)
            page = [read(message.value) for message in topics.read(topic, partition, offset, following - offset)]
            chosen = [record for record in page if wanted(record)]
            found += chosen
            left -= len(chosen)
            following = offset
    found.sort(key=moment_ns)
    return found[-count:] if count else []
