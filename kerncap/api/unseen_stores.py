"""Stores that change no byte: known from a Triton launch's TTIR, else from what it does on other contents."""

from __future__ import annotations

from kerncap.format import Reproducer
from kerncap.replay.byte_effects import Measured
from kerncap.replay.engine import Engine
from kerncap.replay.unseen_stores import stored_on_other_contents

_MOST_S = 20.0


def add_unseen_stores(reproducer: Reproducer, engine: Engine, measured: Measured) -> None:
    """Add to a write set that is empty what the kernel stores all the same.

    Poison goes through such a kernel: it reads what it stores, so these bytes are input too.
    """
    if measured.written_bytes or reproducer.manifest.oracle.kind in ("fault", "timeout"):
        return
    from kerncap.api.accessed_bytes import accessed_bytes  # the sanitizer, which few replays need

    # It has just run here, so the caller trusts it.
    accessed, _ = accessed_bytes(reproducer, _MOST_S, trusted=False, python=engine.choice.python)
    found = stored_on_other_contents(engine, _MOST_S) if accessed is None else accessed.stored
    for region, stored in found.items():
        if stored.any():
            measured.add(region, stored, also_input=stored)
