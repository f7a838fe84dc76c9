"""The environment: what a target is started with, what a manifest may keep of it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import kerncap
from kerncap.errors import BackendUnavailable

# Short on purpose: a reproducer is attached to bug reports, and environments hold secrets.
_STORED = re.compile(r"^(TRITON_\w+|CUDA_VISIBLE_DEVICES|TORCH\w*|PYTORCH_\w+)$")
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|(^|_)(API_?)?KEY($|_)|AUTH", re.IGNORECASE)
_MAX_VALUE = 4096


def triton_hook_folder() -> Path:
    """The folder that goes to the front of the target's PYTHONPATH.

    Raises BackendUnavailable if the hook was not installed with the package.
    """
    package = Path(kerncap.__file__).resolve().parent
    for folder in (package / "shims" / "triton", package.parent / "shims" / "triton"):
        if (folder / "sitecustomize.py").is_file():
            return folder
    raise BackendUnavailable("the Triton hook", f"no shims/triton beside {package}; reinstall kerncap")


def compose_target_environment(current: Mapping[str, str], session: Path) -> dict[str, str]:
    """``current`` with the hook in front of PYTHONPATH and the session's path; nothing else changes."""
    composed = dict(current)
    hook = str(triton_hook_folder())
    existing = current.get("PYTHONPATH", "")
    composed["PYTHONPATH"] = f"{hook}{os.pathsep}{existing}" if existing else hook
    composed["KERNCAP_SESSION"] = str(session)
    return composed


def stored_environment(current: Mapping[str, str]) -> dict[str, str]:
    """The few variables that a manifest keeps, the home directory written as ``~``."""
    return {
        name: hide_home(value[:_MAX_VALUE])
        for name, value in sorted(current.items())
        if _STORED.match(name) and not _SECRET.search(name)
    }


def hide_home(text: str) -> str:
    """``text`` with the home directory replaced by ``~``."""
    home = os.path.expanduser("~").rstrip("/")
    if not home.startswith("/") or len(home) < 2:
        return text
    return re.sub(re.escape(home) + r"(?=/|$|[:;,'\"\s])", "~", text)
