"""``--strict``: for scripts that know only yes and no."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from kerncap.answer import Answer
from kerncap.errors import KerncapError
from kerncap.exit_status import exit_status

_UNDECIDED = exit_status(Answer.UNDECIDED)
_option = click.option(
    "--strict", is_flag=True, help="End with status 1 instead of 5 if the answer is undecided."
)


def strict_option(function: Callable[..., int]) -> Callable[..., int]:
    """Give a command ``--strict``: undecided, or ended by an error that leaves it so, it is a no."""

    @functools.wraps(function)
    def strictly(*arguments: Any, strict: bool, **options: Any) -> int:
        try:
            status = function(*arguments, **options)
        except KerncapError as error:
            if strict and error.exit_status == _UNDECIDED:
                error.exit_status = exit_status(Answer.NO)
            raise
        return exit_status(Answer.NO) if strict and status == _UNDECIDED else status

    return _option(strictly)
