"""Pointers to functions: a project has its code elsewhere than the application, and changes no pointers."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from kerncap.api.export.memory_blocks import WORD, Bytes, Contents, Span
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.elf import FUNCTION
from kerncap.format.kernel_names import parse
from kerncap.log import one_line
from kerncap.replay import captured_function_addresses, hip_code_places
from kerncap.replay.hip_code_places import Captured


def require_none(reproducer: Reproducer, contents: Contents) -> None:
    """Raises UsageError, naming a function or a virtual table that the launch may use by its old address."""
    if reproducer.manifest.device.kind == "hip":
        found = _of_hip(reproducer, contents)
    else:
        found = _of_cuda(reproducer)
    for what, place in found:
        raise UsageError(
            f"{reproducer.path}: {place} has the address of {one_line(what)}, which is elsewhere in every "
            "process; kerncap replay runs it"
        )


def _of_cuda(reproducer: Reproducer) -> Iterator[tuple[str, str]]:
    for each in captured_function_addresses.of_reproducer(reproducer):
        name = reproducer.manifest.regions[each["region"]].name or "a variable"
        yield "a function", f"{one_line(name)} (byte {each['offset']})"


def _of_hip(reproducer: Reproducer, contents: Contents) -> Iterator[tuple[str, str]]:
    manifest = reproducer.manifest
    code = hip_code_places.of_reproducer(reproducer)
    if code is None or not hip_code_places.takes_addresses(code.elf, hip_code_places.kernel_of(reproducer)):
        return
    parameters = manifest.launch.parameters
    assert parameters is not None
    data = bytes.fromhex(parameters.bytes)
    explicit = max((offset + size for offset, size in parameters.layout or ()), default=len(data))
    variables = [
        range(region.base, region.base + region.size)
        for region in manifest.regions
        if region.kind == "global"
    ]
    for offset, word in _words_into(code, variables, np.frombuffer(data[:explicit], np.uint8)):
        yield _called(code, word), f"byte {offset} of the arguments"
    for index, region in enumerate(manifest.regions):
        skew = -region.base % WORD
        for start, after, flip in contents.pieces(Span(index, skew, max(skew, region.size))):
            for state in (after ^ flip, after):
                for offset, word in _words_into(code, variables, state):
                    place = f"byte {start + offset} of {region.name or f'region {index}'}"
                    yield _called(code, word), one_line(place)


def _words_into(code: Captured, variables: list[range], data: Bytes) -> Iterator[tuple[int, int]]:
    """(offset, word) of the words that lead into the code object, and to none of its captured variables."""
    words = data[: len(data) // WORD * WORD].view(np.uint64)
    inside = code.inside
    into = np.flatnonzero((words >= np.uint64(inside.start)) & (words < np.uint64(inside.stop)))
    for place in into.tolist():
        word = int(words[place])
        if not any(word in each for each in variables):
            yield place * WORD, word


def _called(code: Captured, word: int) -> str:
    symbol = code.symbol_at(word)
    if symbol is None:
        return "the kernel's code"
    return parse(symbol.name).qualified if symbol.type == FUNCTION else symbol.name
