"""A launch of a CUDA kernel from a reproducer, with its code as PTX. Nothing in it is executed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from kerncap.format import Reproducer, schema
from kerncap.sanitizer.equality.ptx.launch import PtxLaunch
from kerncap.sanitizer.launch import Argument, PointerArgument, Storage, TensorArgument
from kerncap.sanitizer.sources.reproducer import ManifestMemory, ReproducerContents, named_arguments

# What vectors in C++ are of: float4, __half2.
_VECTOR = re.compile(r"(?<=[a-z])[1-4]$|(?<=bfloat16)2$")
_ELEMENTS = {
    "float": ("float32", 4), "double": ("float64", 8), "__half": ("float16", 2), "half": ("float16", 2),
    "__nv_bfloat16": ("bfloat16", 2), "int": ("int32", 4), "uint": ("uint32", 4), "long": ("int64", 8),
    "char": ("int8", 1), "uchar": ("uint8", 1), "short": ("int16", 2), "ushort": ("uint16", 2),
}  # fmt: skip


class NoParameters(Exception):
    """A launch of which it is not known what was passed, or to how many threads."""


def ptx_launch(reproducer: Reproducer, text: str, entry: str, maker: str) -> PtxLaunch:
    """The reproducer's launch, of the kernel ``entry`` of a PTX text that ``maker`` made.

    Raises NoParameters, FormatError for damaged files.
    """
    manifest = reproducer.manifest
    launch, parameters = manifest.launch, manifest.launch.parameters
    if parameters is None or launch.block is None:
        raise NoParameters("its parameters were not captured")
    memory = ManifestMemory(manifest)
    arguments = tuple(_typed(one, memory.storages, manifest) for _, one in named_arguments(manifest, memory))
    first = {one.storage: one.name for one in reversed(arguments) if isinstance(one, TensorArgument)}
    storages = tuple(
        one if one.name else replace(one, name=first.get(number, ""))
        for number, one in enumerate(memory.storages)
    )
    layout = parameters.layout or ()
    named = manifest.arguments if len(layout) == len(manifest.arguments) else ()
    return PtxLaunch(
        kernel=manifest.kernel.name,
        ttir="",
        grid=launch.grid,
        arguments=arguments,
        storages=storages,
        contents=ReproducerContents(reproducer, memory.pieces, [one.size_bytes for one in storages]),
        ptx=text,
        entry=entry,
        maker=maker,
        block=launch.block,
        shared_bytes=launch.shared_bytes or 0,
        buffer=bytes.fromhex(parameters.bytes),
        argument_at={offset: one.name for (offset, _), one in zip(layout, named, strict=False)},
        symbols={
            region.name: region.base
            for region in manifest.regions
            if region.kind == "global" and region.name and region.module == 0
        },
    )


def _typed(one: Argument, storages: Sequence[Storage], manifest: schema.Manifest) -> Argument:
    """A pointer into memory as a tensor: of the elements of float4 and the like, or of no known type."""
    if not isinstance(one, PointerArgument):
        return one
    pointee = next(
        (each.value.dtype for each in manifest.arguments
         if each.name == one.name and isinstance(each.value, schema.PointerValue)), "",
    )  # fmt: skip
    dtype, size = _ELEMENTS.get(_VECTOR.sub("", pointee), ("", 1))
    for number, held in enumerate(storages):
        if held.address <= one.address < held.address + held.size_bytes:
            shape = ((held.address + held.size_bytes - one.address) // size,)
            return TensorArgument(one.name, number, one.address, dtype, size, shape, (1,))
    return one
