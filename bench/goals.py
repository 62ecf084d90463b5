"""How the benches tell whether a goal was reached."""

from __future__ import annotations


def word(reached: bool) -> str:
    return "reached" if reached else "MISSED"
