"""Lists that are printed page by page are those that are printed whole."""

from __future__ import annotations

import json

import pytest
from pydantic import BaseModel

from tidegate.cli.printing import print_list, print_pages


class Thing(BaseModel):
    name: str
    count: int


THINGS = [Thing(name=name, count=number) for number, name in enumerate(("a", "bb", "é\n"))]


@pytest.mark.parametrize("sizes", [(), (0,), (3,), (1, 0, 2)])
def test_pages_are_one_list_in_json(capsys: pytest.CaptureFixture[str], sizes: tuple[int, ...]) -> None:
    left = list(THINGS)
    pages = [[left.pop(0) for _ in range(size)] for size in sizes]
    print_pages(iter(pages), ("name", "count"), as_json=True, empty="-")
    printed = capsys.readouterr().out
    print_list([thing for page in pages for thing in page], ("name", "count"), as_json=True, empty="-")
    assert printed == capsys.readouterr().out
    assert len(json.loads(printed)) == sum(sizes)


def test_pages_are_one_table_with_one_line_of_titles(capsys: pytest.CaptureFixture[str]) -> None:
    print_pages(iter([THINGS[:1], [], THINGS[1:]]), ("name", "count"), as_json=False, empty="-")
    assert capsys.readouterr().out.split() == ["NAME", "COUNT", "a", "0", "bb", "1", "é\\n", "2"]
    print_pages(iter([[]]), ("name",), as_json=False, empty="Nothing.")
    assert capsys.readouterr().out == "Nothing.\n"
