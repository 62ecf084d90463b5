"""`tidegate settings`: what is configured, and where it comes from."""

from __future__ import annotations

from typing import Any

import click
from pydantic import BaseModel, SecretStr

from tidegate import settings as settings_module
from tidegate.cli.invocation import Group, Invocation, pass_invocation
from tidegate.cli.printing import print_list
from tidegate.settings import Settings

_HIDDEN = "********"


class SettingView(BaseModel):
    name: str
    value: Any
    default: Any
    source: str


@click.group(cls=Group)
def settings() -> None:
    """Settings."""


@settings.command()
@pass_invocation
def show(invocation: Invocation) -> None:
    """Shows every setting in force and its source; secrets are hidden."""
    directory = invocation.directory
    current = invocation.settings()
    if directory.runs():
        views = _views(current, {}, otherwise="running service")
    else:
        found = settings_module.sources(directory.path, config=invocation.config, overrides=invocation.overrides)
        views = _views(current, found, otherwise="default")
    print_list(views, ("name", "value", "source"), as_json=invocation.json, empty="")


def _views(current: Settings, sources: dict[str, str], otherwise: str) -> list[SettingView]:
    """A value equal to its default that no source names is the default."""
    views = []
    for section, model in Settings.model_fields.items():
        for name in type(model.default).model_fields:
            value = _shown(getattr(getattr(current, section), name))
            default = _shown(getattr(model.default, name))
            source = sources.get(f"{section}.{name}") or ("default" if value == default else otherwise)
            views.append(SettingView(name=f"{section}.{name}", value=value, default=default, source=source))
    return views


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return _HIDDEN if value.get_secret_value() else ""
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return value
