"""``kerncap diverge -- CMD A -- CMD B``: the first launch in which two runs differ."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import click

from kerncap.cli.number_types import COUNT, TIMES, Finite
from kerncap.cli.paths import OUTPUT_FOLDER, PATH
from kerncap.cli.strict import strict_option
from kerncap.exit_status import exit_status

_SEPARATOR = "--"


@click.command("diverge")
@click.option("--a", "recorded_a", metavar="FILE", type=PATH, help="Run recorded by `kerncap trace`, as A.")
@click.option("--b", "recorded_b", metavar="FILE", type=PATH, help="Run recorded by `kerncap trace`, as B.")
@click.option("--env", "variables", metavar="NAME=VALUE", multiple=True, help="Set for B only. Repeatable.")
@click.option(
    "-o", "--output", metavar="DIR", type=OUTPUT_FOLDER, default="kerncap-out", show_default=True,
    help="Folder for the reproducers of both sides.",
)  # fmt: skip
@click.option("-k", "--kernel", metavar="REGEX", help="Only kernels whose name matches REGEX.")
@click.option("--launch", metavar="N[:M]", help="Only launches N to M-1 of each kernel, counted from 0.")
@click.option(
    "--ranks", metavar="N,M",
    help="Compare rank N of A with rank M of B; with one command, two ranks of one run.",
)  # fmt: skip
@click.option(
    "--native", is_flag=True, help="Also hash the memory of CUDA kernels; each waits for the device."
)
@click.option(
    "--ulps", type=Finite(0, 1e18), metavar="N", help="Accept results within N units in the last place."
)
@click.option("--rtol", type=Finite(0, 1e6), metavar="X", help="Accept results within a relative error of X.")
@click.option(
    "--atol", type=Finite(0, 1e30), metavar="X", help="Accept results within an absolute error of X."
)
@click.option(
    "--rounds", type=COUNT, default=4, show_default=True, metavar="N",
    help="Maximum number of differing launches to capture; each runs both programs once more.",
)  # fmt: skip
@click.option(
    "--budget", type=TIMES, metavar="X",
    help="Limit for the search, such as 3x: as a multiple of what the programs take without kerncap.",
)  # fmt: skip
@click.option("--no-noise", is_flag=True, help="Don't run A again to recognise nondeterminism.")
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
@click.argument("command", metavar="[-- CMD A...] [-- CMD B...]", nargs=-1, type=click.UNPROCESSED)
def command(
    recorded_a: Path | None,
    recorded_b: Path | None,
    variables: tuple[str, ...],
    output: Path,
    kernel: str | None,
    launch: str | None,
    ranks: str | None,
    native: bool,
    ulps: float | None,
    rtol: float | None,
    atol: float | None,
    rounds: int,
    budget: float | None,
    no_noise: bool,
    as_json: bool,
    command: tuple[str, ...],
) -> int:
    """Run two programs, or one twice, and find the first Triton launch in which they differ.

    The memory of each launch's arguments is hashed before and after it, launches are aligned, and the first
    one that differs is captured on both sides. One command is compared with itself, or with itself under
    --env. The programs' output goes to stderr.

    Exit status: 0 equal, 1 different, 5 not everything could be compared.
    """
    from kerncap.api.diverge import DivergeOptions, Side, Tolerance, diverge
    from kerncap.capture.options import Selection, parse_launch
    from kerncap.report.diverge_text import render

    first, second = _commands(command, recorded_a, recorded_b)
    added = _variables(variables)
    rank_a, rank_b = _ranks(ranks)
    found = diverge(
        DivergeOptions(
            Side("A", first, None, recorded_a, rank_a),
            Side("B", second, {**os.environ, **added} if added else None, recorded_b, rank_b),
            output,
            Selection(kernel=kernel, launch=parse_launch(launch) if launch is not None else None),
            Tolerance(ulps, rtol, atol),
            rounds,
            not no_noise,
            native,
            budget,
        )
    )
    if as_json:
        click.echo(json.dumps(found.as_dict(), indent=1))
    else:
        click.echo(render(found), nl=False)
    return exit_status(found.answer)


def _commands(
    words: tuple[str, ...], recorded_a: Path | None, recorded_b: Path | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    from kerncap.errors import UsageError

    if words.count(_SEPARATOR) > 1:
        raise UsageError("diverge: more than two commands; record one with kerncap trace -o FILE -- CMD")
    at = words.index(_SEPARATOR) if _SEPARATOR in words else len(words)
    first, second = words[:at], words[at + 1 :]
    if recorded_a is not None and recorded_b is None and not second:
        return (), first
    if recorded_a is None and recorded_b is None and not second:
        return first, first
    return first, second


def _ranks(text: str | None) -> tuple[int, int] | tuple[None, None]:
    from kerncap.errors import UsageError

    if text is None:
        return None, None
    found = re.fullmatch(r"([0-9]{1,9}),([0-9]{1,9})", text)
    if found is None:
        raise UsageError(f"--ranks {text!r}: expected two ranks with a comma between, such as 0,1")
    return int(found[1]), int(found[2])


def _variables(given: tuple[str, ...]) -> dict[str, str]:
    from kerncap.errors import UsageError

    found = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise UsageError(f"--env {text}: expected NAME=VALUE")
        found[name] = value
    return found
