"""``kerncap tune``: the fastest right configuration of a kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap import log, whole_files
from kerncap.cli.number_types import COUNT, PROCESSES, SECONDS, Finite
from kerncap.cli.paths import PATH, REPRO
from kerncap.cli.replay_options import ATOL, PYTHON, RTOL, TRUST
from kerncap.cli.strict import strict_option
from kerncap.exit_status import exit_status
from kerncap.time_limits import LAUNCH_S


@click.command("tune")
@click.argument("repros", type=REPRO, nargs=-1, required=True, metavar="REPRO...")
@click.option(
    "--space", metavar="FILE",
    help="Parameters, values and constraints (TOML or JSON); 'listed': only the @triton.autotune list.",
)  # fmt: skip
@click.option(
    "--trials", type=COUNT, default=100, show_default=True, metavar="N",
    help="Maximum number of configurations to run.",
)  # fmt: skip
@click.option("--time", "time_s", type=Finite(0, 1e9), metavar="S", help="Limit for the search, in seconds.")
@click.option(
    "--patience", type=COUNT, default=60, show_default=True, metavar="N",
    help="Stop after N configurations without an improvement.",
)  # fmt: skip
@click.option(
    "--sampler", type=click.Choice(["auto", "tpe", "grid", "random"]), default="auto", show_default=True,
    help="Search strategy; auto tries every configuration if the trials suffice, else uses TPE.",
)  # fmt: skip
@click.option("--pin", multiple=True, metavar="NAME=V", help="Keep a parameter at a value.")
@click.option("--bound", multiple=True, metavar="NAME=LO:HI", help="Keep a parameter between two values.")
@click.option(
    "--forbid",
    multiple=True,
    metavar="EXPR",
    help='Skip configurations for which EXPR is true, such as "BLOCK_M * BLOCK_N > 16384".',
)
@click.option(
    "--scheduler", metavar="ADDRESS", help="Run trials on this Dask cluster, with one worker for each device."
)
@click.option(
    "--workers", type=PROCESSES, metavar="N",
    help="Worker processes. Default: one for each GPU; two without a GPU.",
)  # fmt: skip
@click.option(
    "--candidate", type=PATH, metavar="FILE",
    help="A module or CUDA source that replaces launches of a range; its numbers are searched.",
)  # fmt: skip
@click.option(
    "--intermediate", "intermediates", multiple=True, metavar="K.NAME",
    help="With --candidate for several launches: nothing needs this argument of launch K after them.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the last search of the same reproducers.")
@click.option("--apply", is_flag=True, help="Write a patch against the application's file.")
@click.option("--html", "html_path", type=PATH, metavar="FILE", help="Write an HTML page with a plot.")
@click.option(
    "--engine", type=click.Choice(["auto", "jit", "interpreter"]), default="auto", show_default=True,
    help="jit: compile a Triton kernel. interpreter: run it on the CPU.",
)  # fmt: skip
@click.option(
    "--device", default="auto", show_default=True, metavar="auto|cuda:N|cpu", help="Device to run on."
)
@PYTHON
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=LAUNCH_S, show_default=True,
    metavar="S", help="Limit for one launch or one compilation, in seconds.",
)  # fmt: skip
@RTOL
@ATOL
@TRUST
@click.option(
    "--hostile", is_flag=True,
    help="Treat the source as an attacker: its Python runs confined, away from the results. Slower.",
)  # fmt: skip
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(repros: tuple[Path, ...], as_json: bool, html_path: Path | None, **options: Any) -> int:
    """Find the fastest configuration that gives the application's result, over one or several shapes.

    Only configurations that were verified are timed. Several reproducers of one kernel give the best for
    each, one for all, and the smallest set within 3 % of the best. The last line is "Result: PASS ...",
    "Result: FAIL ..." or "Result: UNDECIDED ...".
    """
    from kerncap.api.tune import TuneOptions, Watcher, tune
    from kerncap.report.tune_text import render

    result = tune(repros, TuneOptions(**options), Watcher(started=_started))
    if html_path is not None:
        from kerncap.report import tune_html

        whole_files.write(html_path, tune_html.render(result))
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return exit_status(result.answer)


def _started(space: Any, legal: Any, facts: Any) -> None:
    log.line(
        f"tune: {legal.counted} of {log.counted(len(space.parameters), 'parameter')} on {facts['device']}"
    )
