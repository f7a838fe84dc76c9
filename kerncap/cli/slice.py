"""``kerncap slice``: one launch of a range as a separate reproducer."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.number_types import COUNT_OR_NONE
from kerncap.cli.paths import OUTPUT_FOLDER, REPRO


@click.command("slice")
@click.argument("repro", type=REPRO, metavar="RANGE")
@click.argument("launch", type=COUNT_OR_NONE, metavar="K")
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER, default=Path("kerncap-out"), show_default=True,
    help="Folder for the reproducer.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(repro: Path, launch: int, output: Path, as_json: bool) -> int:
    """Make a reproducer of launch K of RANGE, counted from 0; nothing is executed.

    It has the memory from before and after the launch, as in the application.
    """
    from kerncap.api.range_replay import slice_range
    from kerncap.report.documents.ranges import SliceDocument

    path = slice_range(repro, launch, output)
    document = SliceDocument(path=str(path), launch=launch)
    click.echo(json.dumps(document.as_dict()) if as_json else document.path)
    return 0
