"""What workers and compilers are started in: their environment.

Little is imported, so that a command can start them before it loads the rest of itself.
"""

from __future__ import annotations

import os

_NO_COMPILERS = frozenset((
    "TRITON_INTERPRET", "KERNCAP_SESSION", "LD_PRELOAD", "HSA_TOOLS_LIB", "CUDA_INJECTION64_PATH",
    "PYTEST_CURRENT_TEST",
))  # fmt: skip


def environment_of(launcher: str) -> dict[str, str]:
    """What a worker with that launcher finds in its environment."""
    # pytest's own is another one in each test, and none of a worker's business.
    left_out = ("TRITON_INTERPRET", "KERNCAP_SESSION", "PYTEST_CURRENT_TEST")
    environment = {key: value for key, value in os.environ.items() if key not in left_out}
    return {**environment, "TRITON_INTERPRET": "1"} if launcher == "interpreter" else environment


def compilers_environment() -> dict[str, str]:
    """What Triton's compiler finds in its environment: nothing that would change it, or watch it."""
    return {key: value for key, value in os.environ.items() if key not in _NO_COMPILERS}
