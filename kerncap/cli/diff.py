"""``kerncap diff A B``: two reproducers, or two results, compared."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.number_types import COUNT_OR_NONE, RATIO, Finite
from kerncap.cli.paths import REPRO
from kerncap.cli.strict import strict_option
from kerncap.exit_status import exit_status


@click.command("diff")
@click.argument("a", type=REPRO)
@click.argument("b", type=REPRO)
@click.option(
    "--code", "stages", multiple=True, metavar="STAGE",
    help="Show the whole difference of a stage: ttir, ttgir, llir, ptx, sass, amdgcn or isa. Repeatable.",
)  # fmt: skip
@click.option("--side-by-side", is_flag=True, help="Show the stages of --code in two columns.")
@click.option("--memory", "view", metavar="VIEW", help="Compare only the memory of this view.")
@click.option(
    "--lines", type=COUNT_OR_NONE, default=400, show_default=True, metavar="N",
    help="Maximum number of diff lines for each text; 0 for all.",
)  # fmt: skip
@click.option(
    "--max-read", type=Finite(0.001, 1e6), default=16.0, show_default=True, metavar="GIB",
    help="Maximum memory to read, for both sides together.",
)  # fmt: skip
@click.option(
    "--max-ratio", type=RATIO, metavar="X",
    help="For two results: count a time as different if B takes more than X times as long.",
)  # fmt: skip
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    a: Path,
    b: Path,
    stages: tuple[str, ...],
    side_by_side: bool,
    view: str | None,
    lines: int,
    max_read: float,
    max_ratio: float | None,
    as_json: bool,
) -> int:
    """Compare two reproducers (folders or packed), or two results that a command printed with --json.

    For reproducers: launch, arguments, code, source, memory before and after by view, environment. For
    results: the values that changed, and ratios of times. Nothing is executed.

    Versions, addresses and times are shown and don't count. Exit status: 0 equal, 1 different, 5 not
    everything could be compared.
    """
    from kerncap.api.diff import DocumentDiff, diff, stage_rows
    from kerncap.errors import UsageError
    from kerncap.report.diff_documents_text import render_documents
    from kerncap.report.diff_text import render, render_side_by_side

    if side_by_side and (not stages or as_json):
        raise UsageError("--side-by-side: no stage to show; name one with --code, and leave --json out")
    found = diff(
        a, b, stages=stages, view=view, most_lines=lines or None, most_read=int(max_read * (1 << 30)),
        max_ratio=max_ratio,
    )  # fmt: skip
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
    elif isinstance(found, DocumentDiff):
        click.echo(render_documents(found), nl=False)
    elif side_by_side:
        for stage in stages:
            rows = stage_rows(a, b, stage)
            if rows is None:
                click.echo(f"{stage.upper()}: not known of both, or no disassembler here reads it")
            else:
                click.echo(render_side_by_side(stage, rows if not lines else rows[:lines]), nl=False)
    else:
        click.echo(render(found, stages, view), nl=False)
    return exit_status(found.answer)
