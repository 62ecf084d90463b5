"""What every command shares: the common options, usable before or after the command's name, and how errors end.

An error is one line on stderr, or with `--json` one JSON object there; the exit code is 1, or 2 for wrong usage.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import click

from tidegate import handover, processes
from tidegate import settings as settings_module
from tidegate.assembly import open_tables
from tidegate.core.errors import TidegateError
from tidegate.core.s3errors import S3Error
from tidegate.datadir import DataDirectory
from tidegate.pools.registry import Registry
from tidegate.pools.vault import Vault
from tidegate.ports import Tables
from tidegate.service_account import started_by_root
from tidegate.settings import Settings

DATA_VARIABLE = "TIDEGATE_DATA"
DEFAULT_DATA = ".tidegate"


@dataclass
class Invocation:
    """The common options of one call; `click` hands it to commands marked with `pass_invocation`."""

    data: str | None = None
    config: Path | None = None
    overrides: tuple[str, ...] = ()
    json: bool = False
    _settings: Settings | None = None

    @property
    def directory(self) -> DataDirectory:
        return DataDirectory(Path(self.data or os.environ.get(DATA_VARIABLE) or DEFAULT_DATA))

    def settings(self) -> Settings:
        """Read once, so that one command never works with two."""
        if self._settings is None:
            self._settings = self._read_settings()
        return self._settings

    def use(self, settings: Settings) -> None:
        """For the command that starts the service: these are its settings, not those of one that runs already."""
        self._settings = settings

    def _read_settings(self) -> Settings:
        directory = self.directory
        if (self.config or self.overrides) and directory.runs():
            click.echo("note: the service is running; its settings are used, not --config and --set", err=True)
        if not started_by_root():
            return directory.settings(config=self.config, overrides=self.overrides)
        # Files are made as the user who runs the service, and the settings file may be root's alone.
        shown = [self.config] if self.config else []
        if directory.runs():
            handover.act_as_owner(directory.path, shown)
            return directory.settings()
        settings = settings_module.load(directory.path, config=self.config, overrides=self.overrides)
        if not handover.act_as_owner(directory.path, shown):
            handover.act_for_service(directory.path, settings.service.account, shown=shown)
        return settings

    @contextmanager
    def tables(self) -> Iterator[Tables]:
        settings, directory = self.settings(), self.directory
        directory.prepare()
        tables = open_tables(settings, directory.path)
        try:
            yield tables
        finally:
            tables.close()

    def registry_on(self, tables: Tables) -> Registry:
        path = self.directory.path
        return Registry(tables, Vault.open(path), path, self.settings())

    @contextmanager
    def registry(self) -> Iterator[Registry]:
        with self.tables() as tables:
            yield self.registry_on(tables)


pass_invocation = click.make_pass_decorator(Invocation, ensure=True)


def _remember(context: click.Context, parameter: click.Parameter, value: Any) -> None:
    invocation = context.find_root().ensure_object(Invocation)
    context.obj = invocation
    if value in (None, (), False):
        return
    if parameter.name == "overrides":
        value = invocation.overrides + value
    setattr(invocation, str(parameter.name), value)


def _common_options() -> list[click.Parameter]:
    return [
        click.Option(
            ["--data"],
            metavar="DIR",
            help=f"Data directory.  [default: ${DATA_VARIABLE} or ./{DEFAULT_DATA}]",
            expose_value=False,
            callback=_remember,
        ),
        click.Option(
            ["--config"],
            type=click.Path(path_type=Path),
            metavar="FILE",
            help="Settings file.  [default: tidegate.toml in the data directory]",
            expose_value=False,
            callback=_remember,
        ),
        click.Option(
            ["--set", "overrides"],
            multiple=True,
            metavar="SECTION.NAME=VALUE",
            help="Overrides one setting; may be repeated.",
            expose_value=False,
            callback=_remember,
        ),
        click.Option(["--json"], is_flag=True, help="Prints JSON.", expose_value=False, callback=_remember),
    ]


class Command(click.Command):
    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.extend(_common_options())


class Group(click.Group):
    command_class = Command

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.params.extend(_common_options())


class Root(Group):
    """Turns every expected error into one line and an exit code."""

    group_class = Group

    def main(  # type: ignore[override]  # always "standalone": it ends the process
        self, args: Sequence[str] | None = None, prog_name: str | None = None, **extra: Any
    ) -> NoReturn:
        processes.keep_files_private()
        as_json = "--json" in (sys.argv[1:] if args is None else args)
        extra["standalone_mode"] = False
        try:
            code = super().main(args, prog_name, **extra)
        except click.UsageError as error:
            if not as_json:
                error.show()
                sys.exit(error.exit_code)
            _fail("Usage", error.format_message(), error.exit_code, as_json=True)
        except click.ClickException as error:
            _fail("Usage", error.format_message(), error.exit_code, as_json=as_json)
        except S3Error as error:
            _fail(error.code, error.message if as_json else str(error), 1, as_json=as_json)
        except TidegateError as error:
            _fail(type(error).__name__, str(error), 1, as_json=as_json)
        except (click.Abort, KeyboardInterrupt):
            _fail("Aborted", "aborted", 130, as_json=as_json)
        except BrokenPipeError:
            # The reader of our output has gone; Python must not complain about it once more at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(1)
        sys.exit(code if isinstance(code, int) else 0)


def _fail(kind: str, message: str, code: int, *, as_json: bool) -> NoReturn:
    text = json.dumps({"error": kind, "message": message}) if as_json else f"tidegate: {message}"
    click.echo(text, err=True)
    sys.exit(code)
