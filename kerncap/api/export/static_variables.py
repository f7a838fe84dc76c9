"""Variables of a HIP module that have no name outside of it: HIP gives no address of them."""

from __future__ import annotations

from kerncap.api.export.memory_blocks import Contents
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.code_object import CodeObject, CodeObjectProblem
from kerncap.log import one_line


def idle_static_variables(reproducer: Reproducer, contents: Contents) -> set[int]:
    """The regions that are such variables and may be left out: each is as the code has it, and stays so.

    Raises UsageError, naming one that was set before the launch, or by it.
    """
    regions = [
        (index, region.name or "")
        for index, region in enumerate(reproducer.manifest.regions)
        if region.kind == "global" and not region.module
    ]
    data = reproducer.code("hsaco")
    if data is None or not regions:
        return set()
    try:
        code = CodeObject(data)
        named = {symbol.name for symbol in code.variables()}
        static = {symbol.name: symbol for symbol in code.static_variables()}
    except CodeObjectProblem as error:
        raise UsageError(f"{reproducer.path}: {error}") from error
    found = set()
    for index, name in regions:
        if name in named:
            continue
        size = reproducer.manifest.regions[index].size
        before, after = (contents.read(state, index, 0, size).tobytes() for state in ("pre", "post"))
        if name not in static or before != after or before != code.initial_value(static[name], size):
            raise UsageError(
                f"{reproducer.path}: the launch uses {one_line(name)}, a static variable, which HIP gives no "
                "address of; kerncap replay runs it"
            )
        found.add(index)
    return found
