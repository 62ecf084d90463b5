"""Printing of results: JSON for programs, aligned columns for people."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from textwrap import indent
from typing import Any

import click
from pydantic import BaseModel


def print_object(value: BaseModel | Mapping[str, Any], *, as_json: bool) -> None:
    """One thing: a JSON object, or a line per field."""
    if as_json:
        click.echo(json.dumps(_plain(value), indent=2))
        return
    fields = value.model_dump() if isinstance(value, BaseModel) else dict(value)
    width = max(map(len, fields), default=0)
    for name, item in fields.items():
        click.echo(f"{name.replace('_', ' '):<{width}}  {show(item)}")


def print_list(values: Sequence[BaseModel], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """Several things: a JSON list with every field, or a table of the columns named."""
    if as_json:
        click.echo(json.dumps([_plain(value) for value in values], indent=2))
        return
    if not values:
        click.echo(empty)
        return
    rows = [[show(getattr(value, column)) for column in columns] for value in values]
    print_table([column.replace("_", " ").upper() for column in columns], rows)


def print_pages(pages: Iterable[Sequence[BaseModel]], columns: Sequence[str], *, as_json: bool, empty: str) -> None:
    """As `print_list`, for a list that may be too long to hold: each page when it comes, the columns as wide as it
    needs."""
    is_first = True
    for page in pages:
        if as_json:
            for value in page:
                click.echo("[" if is_first else ",")
                click.echo(indent(json.dumps(_plain(value), indent=2), "  "), nl=False)
                is_first = False
        elif page:
            rows = [[show(getattr(value, column)) for column in columns] for value in page]
            print_table([column.replace("_", " ").upper() for column in columns], rows, with_titles=is_first)
            is_first = False
    if as_json:
        click.echo("[]" if is_first else "\n]")
    elif is_first:
        click.echo(empty)


def print_table(titles: Sequence[str], rows: Sequence[Sequence[str]], *, with_titles: bool = True) -> None:
    widths = [max(len(row[index]) for row in [titles, *rows]) for index in range(len(titles))]
    for row in [titles, *rows] if with_titles else rows:
        click.echo("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def print_done(message: str, value: Mapping[str, Any], *, as_json: bool) -> None:
    """A change without a result of its own."""
    click.echo(json.dumps(dict(value), indent=2) if as_json else message)


def show(value: Any) -> str:
    """A value for people; control characters (keys may hold any) cannot disturb the terminal."""
    if value is None or value == "":
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, datetime):
        return value.strftime("%Y-%m-%d %H:%M:%SZ")
    if isinstance(value, Mapping):
        return ", ".join(f"{show(count)} {show(name)}" for name, count in sorted(value.items())) or "-"
    if isinstance(value, list | tuple):
        return ", ".join(map(show, value)) or "-"
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(value))


def show_bytes(count: int) -> str:
    """With a unit that keeps it short."""
    if count < 1024:
        return f"{count} B"
    size, units = float(count), iter("KMGTPE")
    unit = ""
    while size >= 1024 and (following := next(units, None)) is not None:
        size, unit = size / 1024, following
    return f"{size:.1f} {unit}iB"


def _plain(value: BaseModel | Mapping[str, Any]) -> Any:
    return value.model_dump(mode="json") if isinstance(value, BaseModel) else dict(value)
