"""``--strict``: for scripts that know yes and no alone."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from kerncap.answer import Answer, exit_status
from kerncap.errors import KerncapError

_UNDECIDED = exit_status(Answer.UNDECIDED)
_option = click.option("--strict", is_flag=True, help="Exit status 1 in place of 5 where it is undecided.")


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
