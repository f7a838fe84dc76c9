"""Python files outside any package, as modules."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def load(path: Path | str, name: str) -> Any:
    """The file as the module ``name``, by which others can import it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
