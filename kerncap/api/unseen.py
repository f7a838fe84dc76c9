"""Stores that no replay shows: of a Triton launch that writes what lies there anyway, its TTIR tells them."""

from __future__ import annotations

from kerncap.api.accessed import accessed_bytes
from kerncap.format import Reproducer
from kerncap.replay.engine import Engine
from kerncap.replay.measured import Measured

_MOST_S = 20.0


def add_unseen_stores(reproducer: Reproducer, engine: Engine, measured: Measured) -> None:
    """Add to a write set that is empty what the kernel stores all the same.

    Poison goes through such a kernel: it reads what it stores, so these bytes are input too.
    """
    if measured.written_bytes or reproducer.manifest.oracle.kind in ("fault", "timeout"):
        return
    # It has just run here, so that whoever asks trusts it.
    accessed, _ = accessed_bytes(reproducer, _MOST_S, trusted=False, python=engine.choice.python)
    if accessed is None:
        return
    for region, stored in accessed.stored.items():
        if stored.any():
            measured.add(region, stored, also_input=stored)
