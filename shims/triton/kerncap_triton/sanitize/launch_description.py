"""One launch as kerncap's own process hears of it."""

from __future__ import annotations

import functools
import linecache
import re
from typing import Any, Dict, List, Mapping, Optional, Tuple

from .. import triton_generations
from ..call import python_stack
from . import compilation, gpu_targets, messages
from .arguments import Collected, Place

MAX_SOURCE = 4 << 20  # characters of one file that are passed on
_LOCATION = re.compile(r'loc\("((?:[^"\\]|\\.)+)":\d+:\d+')
_FROM_NUMBERS = re.compile(
    r"int_to_ptr|!tt\.ptr<!tt\.ptr"
)  # of a kernel that makes pointers of what memory holds
_MAX_TEXT = 200


class Description:
    """``sources``: texts by the names in TTIR's locations; ``places``: the storages."""

    def __init__(self, facts: messages.Facts, ttir: str, places: List[Place]) -> None:
        self.facts = facts
        self.ttir = ttir
        self.sources = sources_of(ttir)
        self.places = places
        self.result: Any = None  # what the launch returns where kerncap carries it out


def describe(
    fn: Any,
    bound: compilation.Bound,
    ttir: str,
    grid: Tuple[int, int, int],
    target: Any,
    options: Mapping[str, Any],
    label: str = "",
    allocations: Optional[Any] = None,
) -> Description:
    """Everything but the contents. ``allocations(place)``: the allocator's block. Raises Undescribable."""
    configuration = dict(_constants(fn, bound))
    configuration.update((name, text_of(value)) for name, value in options.items())
    return make(
        str(getattr(fn, "__name__", "kernel")),
        bound.arguments,
        bound.signature,
        ttir,
        grid,
        gpu_targets.name_of(target),
        configuration,
        label,
        allocations,
    )


def make(
    kernel: str,
    arguments: Dict[str, Any],
    signature: Dict[str, Any],
    ttir: str,
    grid: Tuple[int, int, int],
    target: str,
    configuration: Dict[str, str],
    label: str = "",
    allocations: Optional[Any] = None,
) -> Description:
    collected = Collected()
    collected.add_all(arguments, signature)
    if _FROM_NUMBERS.search(ttir):
        collected.add_pointed(arguments)
    collected.close()
    if allocations is not None:
        for place in collected.places:
            place.allocation = allocations(place)
    x, y, z = (max(int(n), 0) for n in grid)
    facts = messages.Facts(
        kernel=kernel,
        grid=(x, y, z),
        arguments=collected.arguments,
        storages=collected.storages(),
        stack=python_stack(),
        configuration=configuration,
        target=target,
        triton=".".join(map(str, triton_generations.version() or ())),
        label=label,
    )
    return Description(facts, ttir, collected.places)


def grid_of(grid: Any, arguments: Dict[str, Any]) -> Tuple[int, int, int]:
    """As `JITFunction.run` takes it: a tuple, or a callable of the bound arguments. Raises what it raises."""
    if callable(grid):
        grid = grid(arguments)
    numbers = [int(n) for n in grid]
    return tuple((numbers + [1, 1])[:3])  # type: ignore[return-value]


@functools.lru_cache(maxsize=256)
def sources_of(ttir: str) -> Dict[str, str]:
    """Texts of the files that TTIR's locations name, as Python knows them (a notebook's cells too).

    As they were when the kernel was first launched, which is what was compiled. Not to be changed.
    """
    found = {}
    for name in dict.fromkeys(_LOCATION.findall(ttir)):
        text = "".join(linecache.getlines(name))
        if text and len(text) <= MAX_SOURCE:
            found[name] = text.encode("utf-8", "replace").decode("utf-8")
    return found


def text_of(value: Any) -> str:
    """A constexpr or an option as the report shows it."""
    value = getattr(value, "value", value) if type(value).__name__ == "constexpr" else value
    if hasattr(value, "cache_key") and hasattr(value, "__name__"):
        return str(value.__name__)
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__}: {error}>"
    return text[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")


def _constants(fn: Any, bound: compilation.Bound) -> List[Tuple[str, str]]:
    names = []
    for path, value in bound.constants.items():
        names.append((compilation.parameter_name(fn, path), text_of(value)))
    return names
