"""``kerncap tune``: the fastest right configuration of a kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from kerncap import log, output
from kerncap.answer import exit_status
from kerncap.cli.numbers import COUNT, PROCESSES, SECONDS, Finite
from kerncap.cli.strict import strict_option


@click.command("tune")
@click.argument("repros", type=click.Path(path_type=Path), nargs=-1, required=True, metavar="REPRO...")
@click.option(
    "--space", metavar="FILE",
    help="Parameters, values, constraints (TOML or JSON); 'listed': the @triton.autotune list alone.",
)  # fmt: skip
@click.option(
    "--trials", type=COUNT, default=100, show_default=True, metavar="N",
    help="Configurations that are run.",
)  # fmt: skip
@click.option("--time", "time_s", type=Finite(0, 1e9), metavar="S", help="Seconds to search.")
@click.option(
    "--patience", type=COUNT, default=60, show_default=True, metavar="N",
    help="Stop after N configurations that were no better.",
)  # fmt: skip
@click.option(
    "--sampler", type=click.Choice(["auto", "tpe", "grid", "random"]), default="auto", show_default=True,
    help="auto tries all where the trials suffice, else as TPE proposes.",
)  # fmt: skip
@click.option("--pin", multiple=True, metavar="NAME=V", help="Keep a parameter at a value.")
@click.option("--bound", multiple=True, metavar="NAME=LO:HI", help="Keep a parameter between two values.")
@click.option("--forbid", multiple=True, metavar="EXPR", help='As "BLOCK_M * BLOCK_N > 16384".')
@click.option("--scheduler", metavar="ADDRESS", help="Run trials on this Dask cluster, one worker a device.")
@click.option(
    "--workers", type=PROCESSES, metavar="N",
    help="Worker processes. Default: one for each GPU, on the host two.",
)  # fmt: skip
@click.option("--resume", is_flag=True, help="Go on with the trials of the last search for the same.")
@click.option("--apply", is_flag=True, help="Write a patch against the application's own file.")
@click.option(
    "--html", "html_path", type=click.Path(path_type=Path), metavar="FILE", help="Write a page with a plot."
)
@click.option(
    "--engine", type=click.Choice(["auto", "jit", "interpreter"]), default="auto", show_default=True,
    help="How to run a Triton kernel.",
)  # fmt: skip
@click.option("--device", default="auto", show_default=True, metavar="auto|cuda:N|cpu", help="Where to run.")
@click.option("--python", metavar="PATH", help="A Python that has torch and triton. Default: kerncap's own.")
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=60.0, show_default=True,
    metavar="S", help="Seconds for one launch, or one compilation.",
)  # fmt: skip
@click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance in place of the dtype's.")
@click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance in place of the dtype's.")
@click.option("--trust", is_flag=True, help="Run reproducers that were not captured here; remembered.")
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(repros: tuple[Path, ...], as_json: bool, html_path: Path | None, **options: Any) -> int:
    """Find the fastest configuration that gives the application's result, over REPRO or several shapes of one
    kernel.

    Every configuration that is timed is verified. Several reproducers give the best for each, one for all,
    and the fewest within 3 % of the best. The last line is "Result: PASS ...",
    "Result: FAIL ..." or "Result: UNDECIDED ...".
    """
    from kerncap.api.tune import TuneOptions, Watcher, tune
    from kerncap.report.tune_text import render

    result = tune(repros, TuneOptions(**options), Watcher(started=_started))
    if html_path is not None:
        from kerncap.report import tune_html

        output.write(html_path, tune_html.render(result))
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return exit_status(result.answer)


def _started(space: Any, legal: Any, facts: Any) -> None:
    what = f"{legal.size:,} configurations" if legal.exact else f"{legal.size:,} combinations"
    log.line(
        f"tune: {what} of {len(space.parameters)} parameters, {facts['workers']} workers on {facts['device']}"
    )
