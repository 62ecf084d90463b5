"""Writes the reference pages of docs/ from the code: settings, commands, metrics and S3 errors.

`--check` writes nothing and fails if a page is not what it would write.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any

import click
from prometheus_client import REGISTRY
from pydantic import BaseModel, SecretStr

import tidegate.metrics  # noqa: F401  registers the metrics
from tidegate.cli.main import main as root
from tidegate.core.s3errors import CODES
from tidegate.settings import BY_NAME, Settings, section_model

DOCS = Path(__file__).parent.parent / "docs"
_NOTE = "<!-- Written by `make docs` from the code: change it there. -->\n"


def settings_page() -> str:
    parts = [
        "# Settings\n",
        _NOTE,
        "Sources, the strongest first: `--set section.name=value`, the environment (`TIDEGATE_SECTION__NAME=value`),\n"
        "the file (`--config FILE`, by default `tidegate.toml` in the data directory), the defaults here.\n"
        "Lists are written as JSON in `--set` and in the environment: `--set 'gateway.domains=[\"s3.example.org\"]'`.\n"
        "`tidegate settings show` prints what is in force and where it comes from. While the service runs, its\n"
        "settings are those it was started with.\n",
    ]
    for section in Settings.model_fields:
        model: type[BaseModel] = section_model(section)
        title = f"{section}.NAME" if section in BY_NAME else section
        parts.append(f"## `[{title}]`\n\n{inspect.cleandoc(model.__doc__ or '')}\n")
        rows = [
            [f"`{name}`", f"`{_default(item.default)}`", _bounds(item.metadata), item.description or ""]
            for name, item in model.model_fields.items()
        ]
        parts.append(_table(["name", "default", "bounds", "meaning"], rows))
    return "\n".join(parts)


def _default(value: Any) -> str:
    if isinstance(value, SecretStr):
        value = value.get_secret_value()
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return "[" + ", ".join(map(_default, value)) + "]"
    return str(value)


def _bounds(metadata: list[Any]) -> str:
    signs = {"ge": "≥", "gt": ">", "le": "≤", "lt": "<"}
    return ", ".join(
        f"{sign} {getattr(item, name)}" for item in metadata for name, sign in signs.items() if hasattr(item, name)
    )


def cli_page() -> str:
    parts = [
        "# Commands\n",
        _NOTE,
        "`--data`, `--config`, `--set` and `--json` may stand before or after the command's name.\n\n"
        "Commands work whether or not the service runs; a change to a running pool holds when the command returns.\n"
        'An error is one line on stderr, or with `--json` one object `{"error": …, "message": …}` there. The exit\n'
        "code is 0 for success, 1 for an error, 2 for wrong usage and 130 when interrupted. Commands that delete ask\n"
        "first, unless `--yes` is given.\n",
    ]
    for name, command, context in commands(root, click.Context(root, info_name="tidegate")):
        parts.append(f"## `{name}`\n\n```\n{command.get_help(context).rstrip()}\n```\n")
    return "\n".join(parts)


def commands(command: click.Command, context: click.Context) -> Iterator[tuple[str, click.Command, click.Context]]:
    """The command and all below it."""
    context.terminal_width = 100
    yield context.command_path, command, context
    if isinstance(command, click.Group):
        for name in sorted(command.commands):
            below = command.commands[name]
            yield from commands(below, click.Context(below, info_name=name, parent=context))


def metrics_page() -> str:
    rows = []
    for metric in REGISTRY.collect():
        if metric.name.startswith("tidegate_"):
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            rows.append([f"`{name}`", metric.type, ", ".join(_labels(metric.name)), metric.documentation])
    return "\n".join(
        [
            "# Metrics\n",
            _NOTE,
            "`GET /metrics` at the API's address gives the sum over all processes of this machine in Prometheus' text\n"
            "format. It answers without a token, since it holds no name of a pool, bucket or key; set\n"
            "`api.metrics_open` to false to ask for the admin token there as well. Counts of a process that died are\n"
            "kept until the service is started anew.\n",
            _table(["name", "type", "labels", "meaning"], sorted(rows)),
        ]
    )


def _labels(name: str) -> list[str]:
    found = REGISTRY._names_to_collectors[name]
    return [f"`{label}`" for label in found._labelnames]  # type: ignore[attr-defined]


def errors_page() -> str:
    rows = [[f"`{code}`", f"{status} {HTTPStatus(status).phrase}", text] for code, (status, text) in CODES.items()]
    return "\n".join(
        [
            "# S3 errors\n",
            _NOTE,
            "What the gateway itself answers, as S3's XML with a request id. Errors of a backend pass through as they\n"
            "are. After a request that cannot be read safely the connection is closed. A 503 carries `Retry-After`:\n"
            "the pool is being started, or cannot be; clients of S3 try again by themselves.\n",
            _table(["code", "status", "usual message"], sorted(rows)),
        ]
    )


def _table(titles: list[str], rows: list[list[str]]) -> str:
    lines = [titles, ["---"] * len(titles), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def pages() -> dict[Path, str]:
    return {
        DOCS / "settings.md": settings_page(),
        DOCS / "cli.md": cli_page(),
        DOCS / "metrics.md": metrics_page(),
        DOCS / "errors.md": errors_page(),
    }


def run(check: bool) -> int:
    stale = [path for path, text in pages().items() if not path.exists() or path.read_text() != text]
    if check:
        for path in stale:
            print(f"{path} is not current: run make docs", file=sys.stderr)
        return int(bool(stale))
    for path in stale:
        path.write_text(pages()[path])
        print(f"wrote {path}")
    return 0


if __name__ == "__main__":
    sys.exit(run("--check" in sys.argv[1:]))
