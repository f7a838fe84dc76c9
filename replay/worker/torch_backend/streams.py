"""Does a launch do all of its work in the stream that it was given?

Timing by events measures one stream. A launch that works in another one, or returns before that one has
finished, is measured as fast as it likes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

_HOLD_CYCLES = 100_000_000  # some 50 ms


def problem(torch: Any, memory: Any, regions: list[int], launch: Callable[[], None]) -> str:
    """What is wrong; nothing if the launch's writes are all ordered in the current stream.

    ``regions`` are those that it writes; memory is as before a launch, and as after one when this ends.
    """
    tensors = [memory.tensor(region, 0, memory.regions[region]["size"]) for region in regions]
    before = [tensor.clone() for tensor in tensors]
    torch.cuda.synchronize()
    watch = torch.cuda.Stream()
    held = torch.cuda.Event()
    torch.cuda._sleep(_HOLD_CYCLES)
    held.record()
    launch()
    behind = [tensor.clone() for tensor in tensors]  # ordered behind the launch, if it is in this stream
    with torch.cuda.stream(watch):
        early = any(not torch.equal(a, b) for a, b in zip(before, tensors, strict=True))
    if early and not held.query():
        torch.cuda.synchronize()
        return "it wrote while the stream that it was launched in was still busy with earlier work"
    torch.cuda.synchronize()
    if any(not torch.equal(a, b) for a, b in zip(behind, tensors, strict=True)):
        return "it went on writing after its stream had finished"
    return _captured(torch, tensors, before, launch)


def _captured(torch: Any, tensors: list[Any], before: list[Any], launch: Callable[[], None]) -> str:
    """The same in a graph: what is not in the stream is not in the graph, or breaks its capture."""
    for tensor, old in zip(tensors, before, strict=True):
        tensor.copy_(old)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            launch()
    except Exception as error:
        torch.cuda.synchronize()
        if "unjoined" in str(error).lower() or "isolation" in str(error).lower():
            return f"it leaves work in another stream that nothing waits for ({error})".splitlines()[0]
        return ""  # whatever else a capture does not take says nothing of streams
    torch.cuda.synchronize()
    if any(not torch.equal(a, b) for a, b in zip(before, tensors, strict=True)):
        return "it writes outside of the stream that it was launched in"
    graph.replay()
    torch.cuda.synchronize()
    return ""
