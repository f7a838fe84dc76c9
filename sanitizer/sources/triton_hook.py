"""The hook's modules that touch triton and torch, loaded into this process as the target would load them."""

from __future__ import annotations

import importlib
import sys
import threading
from importlib.util import module_from_spec, spec_from_file_location
from types import ModuleType
from typing import Any

from kerncap import env
from kerncap.errors import BackendUnavailable

PACKAGE = "kerncap_triton"
_lock = threading.Lock()


def load(name: str) -> Any:
    """Module ``kerncap_triton.sanitize.<name>``. Raises BackendUnavailable where the hook is not installed.

    The hook lies in a folder of its own, off `sys.path`: it is found by that folder.
    """
    with _lock:
        if PACKAGE not in sys.modules:
            _load_package()
    return importlib.import_module(f"{PACKAGE}.sanitize.{name}")


def available_memory() -> int:
    """Bytes that this process may still take, by the machine and by its cgroups."""
    load("backed_pages")
    found: int = importlib.import_module(f"{PACKAGE}.memory_room").available_memory()
    return found


def installed() -> Any:
    """`kerncap_triton.sanitize.hooks`, its hooks put on Triton. Raises BackendUnavailable without Triton."""
    try:
        importlib.import_module("triton.runtime.jit")
    except ImportError as error:
        raise BackendUnavailable("the Triton front end", str(error)) from error
    hooks = load("hooks")
    hooks.install(load("autotuner").run)
    return hooks


def _load_package() -> ModuleType:
    folder = env.triton_hook_folder() / PACKAGE
    spec = spec_from_file_location(PACKAGE, folder / "__init__.py", submodule_search_locations=[str(folder)])
    if spec is None or spec.loader is None:
        raise BackendUnavailable("the Triton hook", f"{folder} can't be loaded")
    module = module_from_spec(spec)
    sys.modules[PACKAGE] = module
    spec.loader.exec_module(module)
    return module
