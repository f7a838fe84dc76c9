"""``kerncap inspect``: everything about a reproducer, nothing executed."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.number_types import Offset
from kerncap.cli.several import of_each
from kerncap.errors import UsageError
from kerncap.format.folder import is_range


@click.command("inspect")
@of_each
@click.option("--verify", is_flag=True, help="Unpack and check every chunk of memory, however large.")
@click.option(
    "--at", type=Offset(), multiple=True, metavar="OFFSET",
    help="Show the source line of the code at this byte of the kernel. Repeatable.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(reproducer: Path, verify: bool, at: tuple[int, ...], as_json: bool) -> int:
    """Show everything about a reproducer; nothing in it is executed.

    For a range, also show what flows between its launches. Exit status: 0, or 3 if it is malformed or
    damaged, with the file and byte in one line.
    """
    if is_range(reproducer):
        return _range(reproducer, verify, at, as_json)
    from kerncap.api.inspect import inspect
    from kerncap.report import inspect_text

    document = inspect(reproducer, verify=verify, at=at)
    if as_json:
        # ASCII only: text out of a reproducer can't reach a terminal as control characters.
        click.echo(json.dumps(document, indent=1))
    else:
        click.echo(inspect_text.render(document), nl=False)
    return 0


def _range(path: Path, verify: bool, at: tuple[int, ...], as_json: bool) -> int:
    from kerncap.api.range_flow import inspect_range
    from kerncap.report.range_text import render_inspect

    if at:
        raise UsageError("--at is for one launch: `kerncap slice` makes a reproducer of it")
    document = inspect_range(path, verify)
    click.echo(json.dumps(document, indent=1) if as_json else render_inspect(document), nl=as_json)
    return 0
