"""The user's ``reference(args)`` for a native launch: numpy arrays by the names of the arguments."""

from __future__ import annotations

import importlib.util
import traceback
from pathlib import Path
from typing import Any

import numpy as np

from ..common.failures import KernelError, Refused
from ..common.fresh_source import Fresh
from ..job import JobArgument


def expected(path: Path, arguments: list[JobArgument], arrays: dict[str, Any]) -> dict[str, Any]:
    """What the file's function gives, or changes in place, by name; shapes are those of ``arrays``.

    Raises KernelError with the traceback if it raises, Refused for what it may not give.
    """
    function = _function(path)
    originals = {name: array.copy() for name, array in arrays.items()}
    args = {a["name"]: arrays.get(a["name"], _plain(a["value"])) for a in arguments}
    try:
        returned = function(args)
    except Exception as error:
        raise KernelError(f"reference() raised {error!r}", traceback.format_exc()) from error
    if returned is None:
        return {
            name: args[name]
            for name, old in originals.items()
            if not np.array_equal(args[name], old, equal_nan=old.dtype.kind == "f")
        }
    if not isinstance(returned, dict):
        raise Refused(
            f"reference() in {path} must return a dict of arrays or None, not {type(returned).__name__}"
        )
    for name, array in returned.items():
        if name not in originals:
            raise Refused(
                f"reference() names {name}, which is not an array of the launch; those are "
                f"{', '.join(originals)}"
            )
        if np.shape(array) != originals[name].shape:
            raise Refused(
                f"reference() returns {name} with shape {np.shape(array)}, "
                f"the launch has {originals[name].shape}"
            )
    return returned


def _function(path: Path) -> Any:
    name = "_kerncap_reference"
    spec = importlib.util.spec_from_file_location(name, path, loader=Fresh(name, str(path)))
    if spec is None or spec.loader is None:
        raise Refused(f"{path} is not a Python source file")
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise KernelError(
            f"{path.name} can't be imported: {type(error).__name__}: {error}", traceback.format_exc()
        ) from error
    function = getattr(module, "reference", None)
    if not callable(function):
        raise Refused(f"{path} defines no function reference(args)")
    return function


def _plain(value: dict[str, Any]) -> Any:
    kind = value["kind"]
    if kind == "int":
        return int(value["value"])
    if kind == "float":
        text = value["value"]
        return float(text) if text.lstrip("-") in ("inf", "nan") else float.fromhex(text)
    return value.get("value") if kind in ("bool", "str") else None
