"""What is asked of those who carry out tasks in a bucket, what they answer, and what they depend on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from tidegate.core.lifecycle.tasks import ObjectTask, Outcome


@dataclass(frozen=True, slots=True)
class Result:
    """`waits_for` is what holds up a task that is to be tried later, if that is not its pool."""

    outcome: Outcome
    reason: str = ""
    waits_for: str = ""


@dataclass(frozen=True, slots=True)
class Assignment:
    """`is_repeated`: an earlier attempt may have been made, of which nothing is known."""

    task: ObjectTask
    is_repeated: bool = False


class Recheck(Protocol):
    """Whether tasks of one bucket still hold."""

    def most(self, tasks: Sequence[ObjectTask]) -> int:
        """How many of these may go into one request."""

    def void(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        """The results of those that must not be carried out, by their place; asked right before the request."""


class Keeper(Protocol):
    """Keeps what tasks of one bucket destroy, so that it can be brought back."""

    def keep(self, tasks: Sequence[ObjectTask]) -> dict[int, Result]:
        """The results of those that must not be carried out, by their place. It may take long."""

    def forget(self, task: ObjectTask) -> None:
        """The task was not carried out."""
