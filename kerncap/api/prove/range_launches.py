"""The launches that a module replaces, and those of the module, as two kernels on the range's memory."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from kerncap.api.compiled_ttir import Instead, compile_source
from kerncap.errors import UsageError
from kerncap.replay.ranges.as_one import MeasuredAsOne, RangeAsOne
from kerncap.replay.ranges.whole import LaunchInWhole
from kerncap.replay.worker.common import bitmap
from kerncap.sanitizer.sources.reproducer import (
    ManifestMemory,
    ReproducerContents,
    launch_from_reproducer,
    target_of,
)

if TYPE_CHECKING:
    from kerncap.sanitizer.equality.kernel_runs import Kernel
    from kerncap.sanitizer.launch import Launch

_WHY = "a proof reads TTIR"


def kernels(whole: RangeAsOne, module: Instead, python: str | None) -> tuple[Kernel, Kernel]:
    """The replaced launches in a row, and the module's: their storages are the same memory.

    Raises KerncapError.
    """
    from kerncap.sanitizer.equality.kernel_runs import kernel_of, storage_names
    from kerncap.sanitizer.equality.launch_sequence import in_sequence

    replaced = replaced_launches(whole, whole.replaced, python)
    made = module_launches(whole, module, python)
    names = storage_names(replaced[0])
    first = kernel_of(*in_sequence(replaced, "the captured launches"))
    second = kernel_of(*in_sequence(made, module.name))
    return replace(first, names=names, results=names), replace(second, names=names, results=names)


def replaced_launches(
    whole: RangeAsOne, launches: Iterable[LaunchInWhole], python: str | None
) -> list[Launch]:
    """Of Triton, each with the memory before the first launch that is replaced. Raises KerncapError."""
    return [_launch(whole, each, None, python) for each in launches]


def module_launches(whole: RangeAsOne, module: Instead, python: str | None) -> list[Launch]:
    """The same of a module. Raises KerncapError."""
    return [_launch(whole, each, module, python) for each in whole.in_range[whole.own :]]


def leaving_out(kernel: Kernel, storages: Collection[int], label: str) -> Kernel:
    """The kernel, of which these storages are not compared."""
    results = tuple(
        f"{name} of {label}" if number in storages else name for number, name in enumerate(kernel.names)
    )
    return replace(kernel, results=results)


def _launch(whole: RangeAsOne, of: LaunchInWhole, module: Instead | None, python: str | None) -> Launch:
    manifest = of.manifest
    if manifest.kernel.language != "triton":
        raise UsageError(
            f"{manifest.kernel.name}: a {manifest.kernel.language} kernel; a proof of several launches reads "
            "those of Triton"
        )
    arguments = manifest.arguments
    if module is not None:  # which of a candidate's arguments are constexprs, its own signature says
        arguments = tuple(msgspec.structs.replace(one, role="runtime") for one in arguments)
    on_whole = copy.copy(of)
    on_whole.manifest = msgspec.structs.replace(
        manifest, regions=whole.manifest.regions, views=whole.manifest.views, arguments=arguments
    )
    target, text = target_of(manifest.device), None
    if module is not None or of.code("ttir") is None:
        text = compile_source(on_whole, target, _WHY, python=python, instead=module)
    made = launch_from_reproducer(on_whole, text, target)
    assert isinstance(made.contents, ReproducerContents)
    return replace(made, contents=made.contents.instead(whole.read_before))


def intermediates(whole: RangeAsOne, measured: MeasuredAsOne) -> tuple[frozenset[int], frozenset[int]]:
    """The storages that were said to hold no result, and those that may hold none: they are read again.

    Raises UsageError if that is true of only a part of one.
    """
    memory, perhaps, results = ManifestMemory(whole.manifest), measured.perhaps_dead(), measured.results()
    found: tuple[set[int], set[int]] = set(), set()
    for number, pieces in enumerate(memory.pieces):
        is_result = False
        for piece in pieces:
            nothing = bitmap.empty(measured.sizes[piece.region])
            here = bitmap.span(measured.sizes[piece.region], piece.offset, piece.offset + piece.size)
            inside = measured.dead.get(piece.region, nothing), perhaps.get(piece.region, nothing)
            for numbers, bits in zip(found, inside, strict=True):
                numbers |= {number} if (here & bits).any() else set()
            left = here & results.get(piece.region, nothing)
            is_result |= (left & ~(inside[0] | inside[1])).any()
        if is_result and number in found[0] | found[1]:
            raise UsageError(
                f"{memory.storages[number].name}: a part of it is an intermediate, and a proof compares all "
                "of a tensor's memory or nothing"
            )
    return frozenset(found[0]), frozenset(found[1])
