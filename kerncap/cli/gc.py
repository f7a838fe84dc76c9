"""``kerncap gc``: remove reproducers that are old or take too much space."""

from __future__ import annotations

import json
import time
from pathlib import Path

import click

from kerncap.cli import settings
from kerncap.cli.paths import PATH


@click.command("gc")
@click.argument("folders", type=PATH, nargs=-1, metavar="[DIR]...")
@click.option("--older-than", metavar="AGE", help="Choose those older than 12h, 30d or 2w.")
@click.option("--keep-size", "max_size", metavar="SIZE", help="Choose the oldest until the rest fits.")
@click.option("--delete", is_flag=True, help="Remove the chosen ones instead of listing them.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    folders: tuple[Path, ...], older_than: str | None, max_size: str | None, delete: bool, as_json: bool
) -> int:
    """List reproducers in DIR that are old or take too much space; --delete removes them.

    DIR is kerncap-out by default. Only complete reproducers that you own are removed; links are not followed.
    The age counts from when the folder was written; the size is that on disk.
    """
    from kerncap.api.gc import collect, parse_age
    from kerncap.capture.options import parse_size
    from kerncap.report.found_text import render_collected

    collected = collect(
        folders or settings.places()[1:],
        parse_age(older_than) if older_than is not None else None,
        parse_size(max_size) if max_size is not None else None,
        delete,
    )
    if as_json:
        click.echo(json.dumps(collected.as_dict(), indent=1))
        return 0
    going, kept = collected.going, len(collected.staying)
    click.echo(render_collected(going, kept, collected.left_alone, collected.removed, time.time()), nl=False)
    return 0
