"""The selectors that `capture` and `arm` share: their options, and the Selection that these make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from kerncap.cli.number_types import COUNT, SECONDS
from kerncap.format.contract import When, default

if TYPE_CHECKING:
    from kerncap.capture.options import Selection

Command = TypeVar("Command", bound=Callable[..., Any])

_OPTIONS = (
    click.option(
        "-k",
        "--kernel",
        metavar="REGEX",
        help="Only kernels whose name matches REGEX; the first launch is captured.",
    ),
    click.option("--launch", metavar="N[:M]", help="Only launches N to M-1 of each kernel, counted from 0."),
    click.option(
        "--per-config", is_flag=True, help="Capture the first launch of each distinct configuration."
    ),
    click.option(
        "--where",
        metavar="EXPR",
        help="Only launches for which EXPR is true, such as 'n > 1024 and x.ndim == 2'.",
    ),
    click.option("--range", metavar="REGEX", help="Only launches inside an NVTX range that matches REGEX."),
    click.option("--rank", metavar="N[,M]", help="Only processes of these ranks of a distributed program."),
    click.option(
        "--collective",
        metavar="N",
        type=COUNT,
        help="Capture each launch in all N ranks at once: they wait for each other before and after it.",
    ),
    click.option(
        "--collective-timeout",
        metavar="S",
        type=SECONDS,
        default=default.collective_timeout_s,
        show_default=True,
        help="Seconds that a rank waits for the others.",
    ),
    click.option("--on-fault", is_flag=True, help="Keep only the launch that faults, hangs or aborts."),
    click.option(
        "--fault-timeout",
        metavar="S",
        type=SECONDS,
        default=default.fault_timeout_s,
        show_default=True,
        help="Seconds after which a launch counts as hung.",
    ),
    click.option(
        "--when",
        type=click.Choice(get_args(When)),
        help="Keep only launches that produce NaN or Inf, or differ when run again.",
    ),
    click.option("--last", metavar="N", type=COUNT, help="Keep only the last N launches that match."),
    click.option("--stop", is_flag=True, help="End the program once everything chosen is captured."),
)


def selection_options(command: Command) -> Command:
    """Add the options that `selection_of` reads."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def selection_of(given: Mapping[str, Any]) -> Selection:
    """Which launches are taken, as the command line says it. Raises UsageError."""
    from kerncap.capture.options import Selection, parse_launch, parse_ranks
    from kerncap.capture.parse_where import parse_where, postfix

    return Selection(
        kernel=given["kernel"],
        launch=parse_launch(given["launch"]) if given["launch"] is not None else None,
        per_config=given["per_config"],
        where=postfix(parse_where(given["where"])) if given["where"] is not None else None,
        range=given["range"],
        ranks=parse_ranks(given["rank"]) if given["rank"] is not None else None,
        collective=given["collective"],
        collective_timeout_s=given["collective_timeout"],
        on_fault=given["on_fault"],
        fault_timeout_s=given["fault_timeout"],
        when=given["when"],
        last=given["last"],
        stop=given["stop"],
    )
