"""``kerncap prove A B...``: whether two kernels are the same function."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.paths import PATH, REPRO
from kerncap.cli.strict import strict_option
from kerncap.errors import UsageError
from kerncap.exit_status import exit_status


@click.command("prove")
@click.argument("a", type=REPRO)
@click.argument("b", type=REPRO, nargs=-1)
@click.option("--launch", type=PATH, metavar="REPRO", help="Reproducer whose launch two sources run on.")
@click.option(
    "--same", "pairs", metavar="NAME=NAME", multiple=True,
    help="Match an argument of A with one of B, for two reproducers. Repeatable.",
)  # fmt: skip
@click.option(
    "--result", "results", metavar="NAME=NAME", multiple=True,
    help="Compare what A leaves in a tensor with what B leaves in another one, such as for a kernel that "
    "works in place. Repeatable.",
)  # fmt: skip
@click.option(
    "--stages", is_flag=True,
    help="Compare A's TTIR before Triton's passes with the TTGIR that they make; name a pass that differs.",
)  # fmt: skip
@click.option(
    "--trust", is_flag=True, help="Compile the source of a reproducer that was not captured here; remembered."
)
@click.option("--python", metavar="PATH", help="Python with triton, to compile Triton's sources.")
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    a: Path,
    b: tuple[Path, ...],
    launch: Path | None,
    pairs: tuple[str, ...],
    results: tuple[str, ...],
    stages: bool,
    trust: bool,
    python: str | None,
    as_json: bool,
) -> int:
    """Prove that two kernels are equal over the reals for all float values, or show where they differ.

    A and B are reproducers of Triton or CUDA kernels, or sources of them. A source runs on the launch of the
    other, and two sources on that of --launch. Two reproducers must have the same shapes and numbers; their
    arguments are matched by name, or by --same. Several reproducers for B are consecutive launches of one
    program, and are compared with A as one kernel.

    With --stages, A is compared with what Triton's compiler makes of it.

    Needs no GPU. Exit status: 0 proved, 1 different, with inputs that show it, 5 neither. The last line is
    "Result: PASS ...", "Result: FAIL ..." or "Result: UNDECIDED ...".
    """
    from kerncap.api.prove import ProveOptions, prove
    from kerncap.report.prove_text import render

    given = ProveOptions(
        launch=launch,
        then=b[1:],
        same=_names("--same", pairs),
        left=_names("--result", results),
        stages=stages,
        trust=trust,
        python=python,
    )
    result = prove(a, b[0] if b else None, given)
    click.echo(json.dumps(result.as_dict(), indent=2) if as_json else render(result))
    return exit_status(result.answer)


def _names(option: str, pairs: tuple[str, ...]) -> dict[str, str]:
    found: dict[str, str] = {}
    for pair in pairs:
        name, equals, other = pair.partition("=")
        if not (name and equals and other) or name in found:
            raise UsageError(f"{option} {pair}: expected NAME=NAME, each argument of A once")
        found[name] = other
    return found
