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
        parts: list[tuple[str, BaseModel, BaseModel]] = [(section, getattr(current, section), model.default)]
        if section in settings_module.BY_NAME:
            found = getattr(current, section)
            parts = [(f"{section}.{part}", found[part], type(found[part]).model_construct()) for part in sorted(found)]
        for path, given, defaults in parts:
            for name in type(given).model_fields:
                value, default = _shown(getattr(given, name)), _shown(getattr(defaults, name))
                source = sources.get(f"{path}.{name}") or sources.get(path)
                source = source or ("default" if value == default else otherwise)
                views.append(SettingView(name=f"{path}.{name}", value=value, default=default, source=source))
    return views


def _shown(value: Any) -> Any:
    if isinstance(value, SecretStr):
        return _HIDDEN if value.get_secret_value() else ""
    if isinstance(value, dict):
        return {name: _shown(item) for name, item in value.items()}
    return value
