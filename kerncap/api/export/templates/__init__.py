"""The texts that projects are made of; ``@NAME@`` is replaced."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

_FOLDER = Path(__file__).parent


def filled(name: str, values: Mapping[str, str], edit: Callable[[str], str] = lambda text: text) -> str:
    """The template ``name``, as ``edit`` changes it, with its places filled by ``values``."""
    text = edit((_FOLDER / name).read_text(encoding="utf-8"))
    return re.sub(r"@([A-Z_]+)@", lambda found: values[found[1]], text)
