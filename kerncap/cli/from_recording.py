"""``kerncap from-recording PATH``: reproducers of launches that another tool recorded."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.number_types import COUNT_OR_NONE
from kerncap.cli.paths import OUTPUT_FOLDER, PATH


@click.command("from-recording")
@click.argument("recording", type=PATH, metavar="PATH")
@click.option(
    "-k", "--kernel", metavar="REGEX", help="Only kernels whose name matches REGEX. Default: every kernel."
)
@click.option(
    "--launch", type=COUNT_OR_NONE, default=0, metavar="N",
    help="Number of the launch of each kernel, from 0. Default: 0.",
)  # fmt: skip
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER, default=Path("kerncap-out"),
    help="Where reproducers go. Default: kerncap-out.",
)  # fmt: skip
@click.option("--max-size", metavar="SIZE", help="Limit for the memory of a launch. Default: none.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(
    recording: Path, kernel: str | None, launch: int, output: Path, max_size: str | None, as_json: bool
) -> int:
    """Make reproducers of launches that another tool recorded.

    PATH is a log of tritonparse (.ndjson, with the tensors that it saved), or a folder of AMD's kerncap. For
    an archive of HIP's record and replay (.hrr), the command that captures from it is shown. Nothing in PATH
    is executed. A launch that is not recorded completely is named, with what is missing.

    Exit status: 0, or 1 if no reproducer could be made.
    """
    from kerncap import log
    from kerncap.api.from_recording import from_recording
    from kerncap.capture.options import parse_size

    made = from_recording(
        recording, output, kernel=kernel, launch=launch, max_size=parse_size(max_size) if max_size else None
    )
    for path in made.paths:
        log.line(f"{path}: made of what {made.tool} recorded")
    for one in made.left_out:
        log.line(f"{one.launch}: incomplete in the recording: {one.reason}")
    if as_json:
        click.echo(json.dumps(made.as_dict(), indent=1))
    if made.paths:
        log.line(f"next: kerncap inspect {made.paths[0]}")
    elif not made.left_out:
        log.line(f"{recording}: no launch number {launch} of such a kernel; -k, --launch")
    return 0 if made.paths else 1
