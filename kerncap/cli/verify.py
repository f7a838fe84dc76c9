"""``kerncap verify``: prove a kernel or a candidate."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap.answer import exit_status
from kerncap.cli.replay_options import replay_options
from kerncap.cli.strict import strict_option


@click.command("verify")
@click.argument("repro", type=click.Path(path_type=Path))
@replay_options
@strict_option
@click.option(
    "--reference", type=click.Path(path_type=Path), metavar="FILE",
    help="A Python file with reference(args): it returns {name: tensor}, or changes tensors in place.",
)  # fmt: skip
@click.option(
    "--stages",
    metavar="NAMES",
    help="smoke, oracle, determinism, numerics, shapes, memory, with commas between them; or all.  "
    "[default: smoke,oracle]",
)
@click.option(
    "--expect", type=click.Choice(["finite"]), help="What must hold for everything that is written."
)
def command(repro: Path, as_json: bool, stages: str | None, **options: Any) -> int:
    """Judge the kernel of REPRO, or a candidate for it, against the application's own result.

    Where that is not to be trusted (a NaN, a fault), by --reference, by --expect, or else by the agreement of
    three replays. A candidate also has to agree on a second run and on other values. --stages says what else
    is asked: whether runs agree with each other, how exact they are, other sizes and layouts, memory. Each
    stage says what it showed and what not. The last line is "Result: PASS ...", "Result: FAIL ..." or
    "Result: UNDECIDED ..."; the exit status is 0, 1 or 5.
    """
    from kerncap.api.verify import VerifyOptions, parse_stages, verify
    from kerncap.report.verdict_text import render

    result = verify(repro, VerifyOptions(**options, stages=parse_stages(stages)))
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return exit_status(result.answer)
