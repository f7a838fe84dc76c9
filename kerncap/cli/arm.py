"""``kerncap arm SESSION``: choose launches of a program that already runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.cli.number_types import SECONDS
from kerncap.cli.paths import PATH
from kerncap.cli.selection import selection_of, selection_options

WAIT_S = 600.0


@click.command("arm")
@click.argument("session", type=PATH)
@selection_options
@click.option(
    "--wait", metavar="[S]", is_flag=False, flag_value=WAIT_S, type=SECONDS,
    help=f"Wait for a capture, at most S seconds ({WAIT_S:g}), and print its path.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout; the rest to stderr.")
def command(session: Path, wait: float | None, as_json: bool, **given: Any) -> int:
    """Choose launches of a program that runs under `kerncap capture --dormant`.

    SESSION is the folder that capture printed, or the output folder that holds it. The new selection
    replaces the last one, and launches are counted from now. Without a selector, the first launch of
    each kernel with known source is captured.
    """
    from kerncap import log
    from kerncap.api.arm import arm
    from kerncap.report.arm_text import render_arm

    result = arm(session, selection_of(given), wait)
    if as_json:
        from kerncap.report.capture_json import arm_document

        click.echo(json.dumps(arm_document(result), indent=2))
    else:
        log.block(render_arm(result))
    return result.exit_status
