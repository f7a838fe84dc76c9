"""Options that replay and verify share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "--engine",
        type=click.Choice(["auto", "binary", "jit", "interpreter"]),
        default="auto",
        show_default=True,
        help="How to run it: the captured image (always, for CUDA and HIP), or a Triton kernel's source, "
        "compiled or interpreted on the host.",
    ),
    click.option(
        "--device",
        default="auto",
        show_default=True,
        metavar="auto|cuda:N|hip:N|cpu",
        help="Where to run it.",
    ),  # fmt: skip
    click.option(
        "--emulator",
        type=click.Path(path_type=Path),
        metavar="FOLDER",
        help="Run a HIP kernel on an emulated AMD GPU: FOLDER holds the program `run` that starts one. "
        "Default: $KERNCAP_AMD_EMULATOR.",
    ),
    click.option(
        "--candidate",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="In place of the kernel: an edited source (.py, .cu), or for the binary engine an image "
        "(.cubin, .ptx, .hsaco).",
    ),
    click.option(
        "--python", metavar="PATH", help="A Python that has torch and triton. Default: kerncap's own."
    ),
    click.option(
        "--timeout",
        "timeout_s",
        type=float,
        default=60.0,
        show_default=True,
        metavar="S",
        help="Seconds for one launch.",
    ),
    click.option("--rtol", type=click.FloatRange(min=0), help="Relative tolerance in place of the dtype's."),
    click.option("--atol", type=click.FloatRange(min=0), help="Absolute tolerance in place of the dtype's."),
    click.option(
        "--max-size",
        callback=lambda _context, _option, text: _bytes(text),
        metavar="SIZE",
        help="What the captured memory may take, written out (4GiB, or a hundred times what is stored).",
    ),
    click.option("--trust", is_flag=True, help="Run a reproducer that was not captured here; remembered."),
    click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout."),
)


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
