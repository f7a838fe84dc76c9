"""``kerncap arm SESSION``: choose launches of a program that already runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.numbers import COUNT, SECONDS

WAIT_S = 600.0


@click.command("arm")
@click.argument("session", type=click.Path(path_type=Path))
@click.option("-k", "--kernel", metavar="REGEX", help="Kernels whose name matches; the first match is taken.")
@click.option(
    "--launch", metavar="N[:M]", help="These launches of each kernel, counted from now, M excluded."
)
@click.option("--per-config", is_flag=True, help="The first launch of each distinct configuration.")
@click.option("--where", metavar="EXPR", help="Launches for which it holds, as in 'n > 1024'.")
@click.option("--range", "in_range", metavar="REGEX", help="Launches inside of an NVTX range that matches.")
@click.option("--rank", metavar="N[,M]", help="Processes of these ranks of a distributed program alone.")
@click.option("--on-fault", is_flag=True, help="Keep the launch that faults, hangs or aborts.")
@click.option("--fault-timeout", metavar="S", type=SECONDS, default=60.0, show_default=True, help="A hang.")
@click.option("--when", type=click.Choice(["nonfinite", "differs"]), help="Keep launches with such a result.")
@click.option("--last", metavar="N", type=COUNT, help="Keep the last N launches that match.")
@click.option("--stop", is_flag=True, help="End the program once everything chosen is captured.")
@click.option(
    "--wait",
    metavar="[S]",
    is_flag=False,
    flag_value=WAIT_S,
    type=SECONDS,
    help=f"Wait for the capture, S seconds at most ({WAIT_S:g}), and print where it went.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(session: Path, wait: float | None, as_json: bool, **given: Any) -> int:
    """Choose launches of a program that runs under `kerncap capture --dormant`.

    SESSION is the folder that it has printed, or the output folder that holds it. What was armed
    before is replaced; launches are counted from now. Without a selector: the first launch of each
    kernel whose source is known.
    """
    from kerncap import log
    from kerncap.api.arm import arm
    from kerncap.capture.options import CaptureOptions
    from kerncap.cli.selection import selectors
    from kerncap.report.arm_text import arm_document, render_arm

    selection = CaptureOptions(command=("?",), **selectors(given))
    result = arm(session, selection, wait)
    if as_json:
        click.echo(json.dumps(arm_document(result), indent=2))
    else:
        log.block(render_arm(result))
    return result.exit_status
