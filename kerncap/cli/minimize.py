"""``kerncap minimize REPRO``: a smaller reproducer of the same launch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.number_types import Finite
from kerncap.cli.paths import OUTPUT_FOLDER
from kerncap.cli.replay_options import replay_options
from kerncap.cli.several import of_each


@click.command("minimize")
@of_each
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER,
    help="Where the new folder goes. Default: next to REPRO.",
)  # fmt: skip
@click.option(
    "--keep-failing", metavar="CMD", help="Keep the exit status of `CMD REPRO`, which must not be 0."
)
@click.option(
    "--time", "seconds", type=Finite(1, 1e9), default=300.0, show_default=True, metavar="S",
    help="Limit for the search, in seconds; the best result so far is used.",
)  # fmt: skip
@replay_options
def command(
    reproducer: Path,
    output: Path | None,
    keep_failing: str | None,
    seconds: float,
    as_json: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Write a reproducer of the same launch with zeros in place of memory that the launch does not need.

    The new one is replayed and compared before it gets its name; REPRO stays as it is. Exit status: 1 if
    nothing could be left out.
    """
    from kerncap import log
    from kerncap.api.minimize import minimize
    from kerncap.api.replay import ReplayOptions
    from kerncap.report.minimize_text import render

    result = minimize(
        reproducer,
        output,
        ReplayOptions(**options),
        keep_failing=keep_failing,
        seconds=seconds,
        progress=log.line,
    )
    click.echo(json.dumps(result.as_dict(), indent=1) if as_json else render(result.as_dict()))
    return 0 if result.path is not None else 1
