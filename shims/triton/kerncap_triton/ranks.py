"""This process's rank in a distributed program, as docs/session.md has it."""

from __future__ import annotations

import os
import sys
from typing import Optional, Sequence

_RANK = ("RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_LOCAL_RANK = ("LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID")
_MOST = 1 << 31


def rank() -> Optional[int]:
    """Asked when a process first launches: a spawned worker sets its environment itself, after its start."""
    found = _from_environment(_RANK)
    return found if found is not None else _of_torch()


def local_rank() -> Optional[int]:
    return _from_environment(_LOCAL_RANK)


def _from_environment(names: Sequence[str]) -> Optional[int]:
    for name in names:
        text = os.environ.get(name, "")
        if text.isascii() and text.isdigit() and int(text) < _MOST:
            return int(text)
    return None


def _of_torch() -> Optional[int]:
    """Of an initialised process group, for workers that were given their rank as an argument."""
    distributed = sys.modules.get("torch.distributed")
    try:
        if distributed is None or not distributed.is_available() or not distributed.is_initialized():
            return None
        return int(distributed.get_rank())
    except Exception:
        return None
