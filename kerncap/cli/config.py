"""``kerncap config``: the defaults that configuration files may set, and where each is from."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli import settings

DEFAULT = "default"


@click.command("config")
@click.option("--show-origin", is_flag=True, help="Also show the file of each.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(show_origin: bool, as_json: bool) -> int:
    """Show the options that a configuration file may set, with the values in force.

    Files are [tool.kerncap] in the nearest pyproject.toml, then the user's kerncap/config.toml. Options
    that run or trust anything, or change a verdict, can't be set there, and are named.
    """
    from kerncap import log
    from kerncap.report.tables import table

    read = settings.read()
    shown = _shown(read)
    if as_json:
        from kerncap.report.documents.doctor import ConfigDocument, IgnoredSetting, SettingInForce

        document = ConfigDocument(
            settings=tuple(SettingInForce(name=name, value=value, origin=at) for name, value, at in shown),
            ignored=tuple(IgnoredSetting(name=name, file=str(path)) for name, path in read.ignored),
        )
        click.echo(json.dumps(document.as_dict(), indent=1))
        return 0
    columns = ("name", "value", "origin") if show_origin else ("name", "value")
    rows = [["-" if cell is None else cell for cell in row[: len(columns)]] for row in shown]
    click.echo(table(columns, rows), nl=False)
    for name, path in read.ignored:
        log.line(f"{path}: {name}: can't be set in a file; give it on the command line")
    return 0


def _shown(read: settings.Settings) -> list[tuple[str, str | None, str]]:
    """Name, value and origin of each."""
    given = {(each.command, each.option): each for each in read.found}
    found = []
    for name, options in settings.ALLOWED.items():
        parameters = {
            each.name: each for each in importlib.import_module(f"kerncap.cli.{name}").command.params
        }
        for option, parameter in options.items():
            each = given.get((name, option))
            default = parameters[parameter].default
            value = each.value if each is not None else _plain(default)
            origin = DEFAULT if each is None else str(each.origin)
            found.append((f"{name}.{option}", value, origin))
    return found


def _plain(default: Any) -> str | None:
    return str(default) if isinstance(default, str | int | float | Path) else None
