"""A limit of the address space (`ulimit -v`), met before a library ends the process by itself."""

from __future__ import annotations

import os
import resource

from kerncap.errors import OutOfMemory

_LEAST_BYTES = 140 << 20  # with numpy loaded, measured
_THREADS = "OPENBLAS_NUM_THREADS"


def meet() -> None:
    """Raise OutOfMemory for a limit that no command can work under; otherwise load numpy within it.

    OpenBLAS takes some 30 MiB for each core when numpy loads it, and ends the process with status 1 if it
    gets none: under a limit it takes them for one. The variable is put back, for the user's program.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit == resource.RLIM_INFINITY:
        return
    if limit < _LEAST_BYTES:
        raise OutOfMemory
    given = os.environ.get(_THREADS)
    os.environ[_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_THREADS]
        if given is not None:
            os.environ[_THREADS] = given
