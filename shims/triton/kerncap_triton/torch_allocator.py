"""Torch's caching allocator for the native shim: which parts of its segments are in use.

The driver sees segments of 2 MiB and more; what a kernel can reach in them is a tensor's block. The
shim asks before a capture, with its gate open, and goes on without an answer past its deadline.

It asks a thread of ours that waits in a C function of the shim's. It does not call into Python
itself: a callback takes the GIL on the launching thread, no deadline can be put on that, and
a thread that holds the GIL may be waiting for this very launch. With a thread of its own the worst is a
deadline that passes, where the launching thread keeps the GIL (torch's static launcher of Triton
kernels does). For launches that the hook chooses that case is met by giving the blocks beforehand.
"""

from __future__ import annotations

import _thread
import array
import os
import sys
from typing import Any, Dict, Iterator, Optional, Tuple

from . import native_shims
from .contract import Functions

_NO_POOL = (0, 0)
_serving = 0  # the process that has a thread waiting for requests


def watch(module: Any) -> None:
    """Start when the target initialises CUDA. ``module`` is torch.cuda, just imported."""
    # Torch's own queue for what has to wait for that: nothing of the target's is wrapped.
    module._lazy_call(start)


def start() -> None:
    """Give this process's shim a thread to ask, once. Never raises: torch would raise it on."""
    global _serving
    try:
        shim = native_shims.find()
        if (
            _serving != os.getpid()
            and shim is not None
            and shim.functions.mirror_wait is not None
            and shim.is_live
        ):
            _serving = os.getpid()
            # Not of the `threading` module: the target's list of threads stays its own.
            _thread.start_new_thread(_serve, (shim.functions,))
    except Exception:
        pass  # without it the shim takes whole segments


def offer(shim: native_shims.Shim) -> None:
    """Give the blocks for the next capture on this thread, before a launch that the hook chose."""
    if shim.functions.mirror_offer is not None:
        address, count, _keep = _encoded()
        shim.functions.mirror_offer(address, count)


def _serve(functions: Functions) -> None:
    try:
        while True:
            request = functions.mirror_wait()  # without the GIL, until the shim has a question
            if not request:
                return
            address, count, _keep = _encoded()
            functions.mirror_answer(request, address, count)
    except BaseException:
        pass  # an interpreter that ends; nothing of it may reach the target's stderr


def _encoded() -> Tuple[Optional[int], int, Any]:
    """The triples' address, their number, and what keeps them in memory. The number is -1 for none."""
    try:
        words = array.array("Q")
        for block in _blocks():
            words.extend(block)
        return words.buffer_info()[0], len(words) // 3, words
    except Exception:  # an allocator that keeps no list (cudaMallocAsync, a pluggable one)
        return None, -1, None


def _blocks() -> Iterator[Tuple[int, int, int]]:
    """(base, size, in use) of each block of each segment, on every device."""
    for segment in _segments():
        # A graph's pool is in use by the graph, whatever the allocator has marked as free there.
        is_private = tuple(segment.get("segment_pool_id") or _NO_POOL) != _NO_POOL
        base = int(segment["address"])
        for block in segment["blocks"]:
            size = int(block["size"])
            # Everything but "inactive": a block that was freed may wait for another stream's work.
            in_use = is_private or block["state"] != "inactive"
            address = int(block.get("address", base))
            yield address, size, int(in_use)
            base = address + size


def _segments() -> Any:
    memory: Dict[str, Any] = vars(sys.modules["torch.cuda.memory"])
    snapshot = memory["memory_snapshot"]
    try:
        return snapshot(include_traces=False)  # a recorded history can be large
    except TypeError:  # torch before 2.11
        return snapshot()
