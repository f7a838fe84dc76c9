"""``kerncap diff A B``: two reproducers, or two results, held against each other."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.answer import exit_status
from kerncap.cli.numbers import COUNT_OR_NONE, Finite
from kerncap.cli.strict import strict_option


@click.command("diff")
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option(
    "--code", "stages", multiple=True, metavar="STAGE",
    help="Show the whole difference of ttir, ttgir, llir, ptx, sass, amdgcn or isa. May be repeated.",
)  # fmt: skip
@click.option("--side-by-side", is_flag=True, help="Show the stages of --code in two columns instead.")
@click.option("--memory", "view", metavar="VIEW", help="Compare the memory of one view alone.")
@click.option(
    "--lines", type=COUNT_OR_NONE, default=400, show_default=True,
    help="Most lines of each text's difference; 0 for all.",
)  # fmt: skip
@click.option(
    "--max-read", type=Finite(0.001, 1e6), default=16.0, show_default=True, metavar="GIB",
    help="Most memory that is read, both sides together.",
)  # fmt: skip
@click.option(
    "--max-ratio", type=float, metavar="X",
    help="Of two results: times that take more than X times as long in B are a difference.",
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

    Reproducers: launch, arguments, code, source, memory before and after by view, environment. Results: what
    changed, by meaning, with ratios of times. Nothing is executed.

    Exit status 0 if they are equal, 1 if not, 5 if not everything could be compared; other versions,
    addresses and times are shown, and do not count.
    """
    from kerncap.api.diff import DocumentDiff, diff, stage_rows
    from kerncap.errors import UsageError
    from kerncap.report.diff_documents_text import render_documents
    from kerncap.report.diff_text import render, render_side_by_side

    if side_by_side and (not stages or as_json):
        raise UsageError("--side-by-side shows stages: name them with --code, and leave --json out")
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
