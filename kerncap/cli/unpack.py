"""``kerncap unpack FILE.zip``: the folder of a packed reproducer."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import OUTPUT_FOLDER, PATH


@click.command("unpack")
@click.argument("archive", type=PATH)
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER, default=Path("."),
    help="Where the folder goes. Default: the working directory.",
)  # fmt: skip
@click.option(
    "--max-size", default="8GiB", show_default=True, metavar="SIZE", help="Limit for the unpacked size."
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(archive: Path, output: Path, max_size: str, as_json: bool) -> int:
    """Unpack the folder of a packed reproducer; every digest is checked, and nothing in it is executed.

    Exit status: 0, or 3 if the archive is malformed, damaged or hostile, with the place in one line.
    """
    from kerncap.api.pack import unpack_file
    from kerncap.capture.options import parse_size
    from kerncap.report.documents.sharing import UnpackDocument

    folder = unpack_file(archive, output, parse_size(max_size))
    click.echo(json.dumps(UnpackDocument(path=str(folder)).as_dict(), indent=1) if as_json else folder)
    return 0
