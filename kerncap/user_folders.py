"""The folders in which kerncap keeps what it wants to find again, by the user's XDG variables."""

from __future__ import annotations

import os
from pathlib import Path


def cache(*names: str) -> Path:
    """What can be made again."""
    return _base("XDG_CACHE_HOME", ".cache").joinpath("kerncap", *names)


def config(*names: str) -> Path:
    """What the user said."""
    return _base("XDG_CONFIG_HOME", ".config").joinpath("kerncap", *names)


def _base(variable: str, usual: str) -> Path:
    return Path(os.environ.get(variable) or os.path.join(os.path.expanduser("~"), usual))
