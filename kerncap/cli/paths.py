"""Types of options that take paths; what can't be read or written is for a command to say, in one line."""

from __future__ import annotations

from pathlib import Path

import click

PATH = click.Path(readable=False, path_type=Path)
OUTPUT_FILE = click.Path(readable=False, dir_okay=False, path_type=Path)
OUTPUT_FOLDER = click.Path(readable=False, file_okay=False, path_type=Path)
