"""Types of options that take paths; what can't be read or written is for a command to say, in one line."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from kerncap.printable import printable

PATH = click.Path(readable=False, path_type=Path)


class Reproducer(click.Path):
    """A path, or what stands for a reproducer here: the beginning of its name, or ``last``."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Path:
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        if os.path.lexists(path):
            return path
        from kerncap import log
        from kerncap.cli import settings
        from kerncap.format.find_reproducers import LAST, named

        found = named(path, settings.places())
        if str(path) == LAST and found != path:
            log.line(f"last: {found}")
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Files and folders, then names of reproducers here: for bash a file first, which clears the rest."""
        from kerncap.cli import settings
        from kerncap.format.find_reproducers import LAST, reproducers_in

        names = [LAST, *(each.name for each in reproducers_in(settings.places()))]
        here = [CompletionItem(n) for n in names if n.startswith(incomplete) and printable(n) == n]
        return super().shell_complete(ctx, param, incomplete) + here


REPRO = Reproducer(readable=False)
OUTPUT_FILE = click.Path(readable=False, dir_okay=False, path_type=Path)
OUTPUT_FOLDER = click.Path(readable=False, file_okay=False, path_type=Path)
