"""Options that replay and verify share; other commands that run a launch have some of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from kerncap.cli.paths import PATH
from kerncap.time_limits import LAUNCH_S

F = TypeVar("F", bound=Callable[..., Any])

PYTHON = click.option(
    "--python", metavar="PATH", help="Python with torch and triton. Default: the one that runs kerncap."
)
RTOL = click.option(
    "--rtol", type=click.FloatRange(min=0), metavar="X", help="Relative tolerance. Default: the dtype's."
)
ATOL = click.option(
    "--atol", type=click.FloatRange(min=0), metavar="X", help="Absolute tolerance. Default: the dtype's."
)
TRUST = click.option(
    "--trust", is_flag=True, help="Allow a reproducer that was not captured here to run; remembered."
)
_OPTIONS = (
    click.option(
        "--engine", type=click.Choice(["auto", "binary", "jit", "interpreter"]), default="auto",
        show_default=True,
        help="binary: the captured image (always, for CUDA and HIP). jit, interpreter: a Triton kernel's "
        "source, compiled or interpreted on the CPU.",
    ),
    click.option(
        "--device", default="auto", show_default=True, metavar="auto|cuda:N|hip:N|cpu",
        help="Device to run on.",
    ),
    click.option(
        "--emulator", type=PATH, metavar="FOLDER",
        help="Run a HIP kernel on the emulated AMD GPU in FOLDER (see `make amd-gpu`). "
        "Default: $KERNCAP_AMD_EMULATOR.",
    ),
    click.option(
        "--candidate", type=PATH, metavar="FILE",
        help="Run this instead of the captured kernel: a source (.py, .cu, .hip), or an image (.cubin, .ptx, "
        ".hsaco).",
    ),
    PYTHON,
    click.option(
        "--timeout", "timeout_s", type=float, default=LAUNCH_S, show_default=True, metavar="S",
        help="Limit for one launch, in seconds.",
    ),
    RTOL,
    ATOL,
    click.option(
        "--max-size", callback=lambda _context, _option, text: _bytes(text), metavar="SIZE",
        help="Limit for the expanded memory. Default: 4GiB, or a hundred times the stored size.",
    ),
    TRUST,
    click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
)  # fmt: skip


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    from kerncap.capture.options import parse_size

    return parse_size(text)


def replay_options(function: F) -> F:
    """Put the shared options on a command."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function
