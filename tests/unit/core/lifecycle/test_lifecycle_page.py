"""The page about lifecycle rules: its examples are valid, and it names everything there is."""

from __future__ import annotations

import re
from pathlib import Path

from tidegate.core.lifecycle.assess import Hold
from tidegate.core.lifecycle.rules import STORAGE_CLASSES, ActionKind, TransitionMinimum
from tidegate.core.lifecycle.rules_xml import parse_lifecycle

PAGE = (Path(__file__).parents[4] / "docs" / "lifecycle-rules.md").read_text()


def test_the_examples_are_valid_in_the_strict_reading():
    examples = re.findall(r"```xml\n(.*?)```", PAGE, re.DOTALL)
    assert len(examples) >= 2
    for example in examples:
        assert parse_lifecycle(example.encode(), strict=True).rules


def test_every_kind_hold_class_and_minimum_is_named():
    words = [*ActionKind, *Hold, *STORAGE_CLASSES, *TransitionMinimum]
    assert [word for word in words if f"`{word}`" not in PAGE and str(word) not in PAGE] == []
