"""``kerncap profile``: Nsight Compute on a reproducer's launch, explained."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.paths import PATH, REPRO
from kerncap.cli.replay_options import PYTHON, TRUST
from kerncap.errors import UsageError


@click.command("profile")
@click.argument("repro", type=REPRO, required=False)
@click.option(
    "--engine", type=click.Choice(["auto", "binary", "jit"]), default="auto", show_default=True,
    help="binary: the captured image. jit: a Triton kernel's source.",
)  # fmt: skip
@click.option("--device", default="auto", show_default=True, metavar="auto|cuda:N", help="Device to run on.")
@click.option(
    "--candidate", type=PATH, metavar="FILE",
    help="Profile this instead of the captured kernel: a source (.py) or an image (.cubin, .ptx).",
)  # fmt: skip
@PYTHON
@click.option("--output", type=PATH, metavar="FILE.ncu-rep", help="Keep ncu's report.")
@click.option(
    "--import-report", type=PATH, metavar="FILE.ncu-rep",
    help="Explain an existing report of ncu; nothing is run.",
)  # fmt: skip
@click.option(
    "--clock-control", type=click.Choice(["none", "base"]), default="none", show_default=True,
    help="base: ncu fixes the clocks, so that runs can be compared. none: clocks as in any other run.",
)  # fmt: skip
@TRUST
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    repro: Path | None, output: Path | None, import_report: Path | None, clock_control: str, as_json: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Run Nsight Compute (ncu) on the launch of REPRO and explain its metrics.

    Exit status: 0, 2 usage, 3 the reproducer is damaged, 4 no ncu, no device, or no right to its counters.
    """
    from kerncap.api.profile import import_report as explain
    from kerncap.api.profile import profile
    from kerncap.api.replay import ReplayOptions
    from kerncap.report.profile_text import render

    if (repro is None) == (import_report is None):
        raise UsageError("profile takes a reproducer, or a report with --import-report")
    if import_report is not None:
        result = explain(import_report)
    else:
        assert repro is not None
        result = profile(repro, ReplayOptions(**options), output=output, clock_control=clock_control)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return 0
