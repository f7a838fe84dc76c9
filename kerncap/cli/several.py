"""Commands that do the same for each of several reproducers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from kerncap.cli.paths import REPRO

Work = Callable[..., int]
_OF_ONE = {
    "output": "--output", "as_json": "--json", "edit": "--edit", "watched": "--watch", "once": "--once",
    "copy_folder": "--copy", "apply_to": "--apply", "bisect": "--bisect",
}  # fmt: skip


def of_each(work: Work, required: bool = True) -> Work:
    """The argument ``REPRO...``; ``work`` gets ``reproducer``, one after the other.

    What is wrong with one is said and stops no other; the exit status is the worst. What can't be for
    several is refused. If it is not ``required``, ``work`` gets None without one.
    """

    @functools.wraps(work)
    def command(reproducers: tuple[Path, ...], **options: Any) -> int:
        if len(reproducers) < 2:
            return work(reproducer=next(iter(reproducers), None), **options)
        from kerncap import log, unexpected_error
        from kerncap.errors import UsageError
        from kerncap.exit_status import worst

        for name, option in _OF_ONE.items():
            if options.get(name):
                raise UsageError(f"{option}: takes one reproducer, not {len(reproducers)}; leave it out")
        statuses = []
        for number, path in enumerate(reproducers):
            click.echo(f"{'' if number == 0 else chr(10)}{path}:")
            try:
                statuses.append(work(reproducer=path, **options))
            except Exception as error:
                explained = unexpected_error.explained(error)
                log.line(log.one_line(explained))
                statuses.append(explained.exit_status)
        return worst(statuses)

    argument = click.argument("reproducers", type=REPRO, nargs=-1, required=required, metavar="REPRO...")
    return argument(command)
