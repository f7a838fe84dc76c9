"""``kerncap blame REPRO``: the stage of the compilation that brings a difference in."""

from __future__ import annotations

import json
from pathlib import Path

import click

from kerncap.cli.number_types import SECONDS
from kerncap.cli.paths import OUTPUT_FOLDER, PATH, REPRO
from kerncap.cli.replay_options import TRUST
from kerncap.cli.strict import strict_option
from kerncap.exit_status import exit_status
from kerncap.time_limits import LAUNCH_S


@click.command("blame")
@click.argument("reproducer", type=REPRO, metavar="REPRO")
@click.option(
    "--candidate", type=PATH, metavar="FILE", help="Compile this source instead of the captured one."
)
@click.option(
    "--python", "pythons", metavar="PATH", multiple=True,
    help="Python with triton or NVIDIA's wheels. Repeatable, to compare versions in this order.",
)  # fmt: skip
@click.option(
    "--device", default="auto", show_default=True, metavar="auto|cuda:N", help="GPU for PTX and the image."
)
@click.option(
    "--exact", is_flag=True, help="Count any bit that an evaluated stage or a build changes, not only errors."
)
@click.option(
    "-o", "--output", type=OUTPUT_FOLDER, metavar="FOLDER", help="Write a bug report into this new folder."
)
@click.option(
    "--timeout", "timeout_s", type=SECONDS, default=LAUNCH_S, show_default=True, metavar="S",
    help="Limit for one launch, in seconds.",
)  # fmt: skip
@TRUST
@strict_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def command(
    reproducer: Path,
    candidate: Path | None,
    pythons: tuple[str, ...],
    device: str,
    exact: bool,
    output: Path | None,
    timeout_s: float,
    trust: bool,
    as_json: bool,
) -> int:
    """Find the stage of a Triton or CUDA kernel's compilation that makes its result wrong.

    Triton: runs the source in Triton's interpreter, evaluates TTIR and TTGIR, and on a GPU runs the PTX at
    each level of ptxas and the captured image. CUDA: on a GPU, builds the source from strict arithmetic to
    the captured options, one change each, then runs the captured PTX and image. The first stage that
    differs from the one before is named, with the MLIR pass in it. A stage that can't be run says why.

    The last line is "Result: PASS ..." if no stage differs, "Result: FAIL ..." or "Result: UNDECIDED ...".
    """
    from kerncap.api.blame import BlameOptions, blame
    from kerncap.report.blame_text import render

    options = BlameOptions(
        candidate=candidate, pythons=pythons, device=device, exact=exact, trust=trust, timeout_s=timeout_s,
        output=output,
    )  # fmt: skip
    found = blame(reproducer, options)
    click.echo(json.dumps(found.as_dict(), indent=2) if as_json else render(found))
    return exit_status(found.answer)
