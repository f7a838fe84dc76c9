"""``kerncap replay``: run a reproducer's launch alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.replay_options import replay_options


@click.command("replay")
@click.argument("repro", type=click.Path(path_type=Path))
@replay_options
@click.option(
    "-n",
    "timed_runs",
    type=click.IntRange(min=0),
    metavar="N",
    help="Timed runs, in a row where the engine can. Default: 20 on a GPU, else none.",
)
@click.option(
    "--until-fail", type=click.IntRange(min=1), is_flag=False, flag_value=10_000, metavar="[MAX]",
    help="Repeat until a run disagrees, at most MAX times (10000); says how many of how many did.",
)  # fmt: skip
def command(repro: Path, as_json: bool, **options: Any) -> int:
    """Run the launch of REPRO alone and compare with what the application got.

    The last line is "Result: PASS ..." or "Result: FAIL ...". Exit status: 0 pass, 1 fail, 2 usage,
    3 the reproducer is damaged, 4 something is missing here.
    """
    from kerncap.api.replay import ReplayOptions, replay
    from kerncap.report.verdict_text import render

    result = replay(repro, ReplayOptions(**options))
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return 0 if result.passed else 1
