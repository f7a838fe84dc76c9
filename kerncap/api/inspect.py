"""`inspect`: everything about a reproducer, and what follows from it. Nothing in it is executed."""

from __future__ import annotations

from bisect import bisect
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from kerncap import log
from kerncap.errors import UsageError
from kerncap.format import Reproducer, WriteSet, schema
from kerncap.format.elf import ElfProblem
from kerncap.format.validate import view_bounds
from kerncap.report.documents import inspect as documents

DIGESTS_CHECKED_UP_TO = 256_000_000  # stored bytes; more only on request
MAX_ALIASES = 1000


def inspect(path: Path | str, verify: bool = False, at: Sequence[int] = ()) -> dict[str, Any]:
    """The manifest and derived facts of the reproducer at ``path``, as plain data for JSON.

    `InspectDocument` says what the keys mean. All digests are checked up to `DIGESTS_CHECKED_UP_TO` stored
    bytes; ``verify`` unpacks and checks every chunk. ``at``:
    bytes from the beginning of the kernel's code, for each of which ``places`` has the line of the source.
    Raises FormatError, UsageError.
    """
    with Reproducer.open(path) as reproducer:
        digests = _check_digests(reproducer, verify)
        checks = reproducer.checks()
        write_set = WriteSet.load(reproducer)
        manifest = reproducer.manifest
        return documents.InspectDocument(
            path=str(path),
            manifest_sha256=reproducer.manifest_sha256,
            manifest=manifest,
            arguments=tuple(_argument(manifest, argument) for argument in manifest.arguments),
            aliases=tuple(_aliases(manifest)),
            stored=_stored(reproducer),
            checks=msgspec.to_builtins(checks),
            write_set=None if write_set is None else _write_set(reproducer, write_set),
            digests=digests,
            notes=(*manifest.notes, *reproducer.notes),
            places=tuple(_places(reproducer, at)) if at else msgspec.UNSET,
        ).as_dict()


def _places(reproducer: Reproducer, at: Sequence[int]) -> Iterator[documents.CodePlace]:
    """The file and line that each offset of the kernel's code comes from; None if it comes from none."""
    from kerncap.capture.source.native import line_table

    kernel = reproducer.manifest.kernel
    code = next((data for stage in ("hsaco", "cubin") if (data := reproducer.code(stage)) is not None), None)
    try:
        found = () if code is None else line_table.places(code, kernel.mangled or kernel.name)
    except ElfProblem as error:
        raise UsageError(f"{reproducer.path}: the lines of its code can't be read: {error}") from error
    if not found:
        raise UsageError(
            f"{reproducer.path}: its code has no lines of the source; compile the program with -lineinfo "
            "(nvcc) or -g (hipcc), and capture it again"
        )
    starts = [place.offset for place in found]
    for offset in at:
        place = found[max(0, bisect(starts, offset) - 1)]
        inside = place.offset <= offset < place.offset + place.size
        file, line = (place.file, place.line) if inside else (None, None)
        yield documents.CodePlace(offset=offset, file=file, line=line)


def _check_digests(reproducer: Reproducer, verify: bool) -> str:
    if verify:
        reproducer.verify()
        return "verified"
    stored = reproducer.manifest.memory.stored_bytes
    small = stored <= DIGESTS_CHECKED_UP_TO
    reproducer.verify_files(memory=small)
    return "verified" if small else f"digests of memory not checked ({log.size(stored)}; --verify)"


def _stored(reproducer: Reproducer) -> documents.Stored:
    memory = reproducer.manifest.memory
    regions = []
    for number in range(len(reproducer.manifest.regions)):
        pre, post = reproducer.index.region_bytes(number)
        changed = len(reproducer.chunks_changed(number))
        regions.append(documents.StoredRegion(pre_bytes=pre, post_bytes=post, chunks_changed=changed))
    return documents.Stored(
        memory_bytes=memory.stored_bytes + memory.index.size,
        pre_bytes=memory.pre_bytes,
        post_bytes=memory.post_bytes,
        chunks=len(reproducer.index.table),
        regions=tuple(regions),
    )


def _write_set(reproducer: Reproducer, write_set: WriteSet) -> tuple[documents.WrittenRegion, ...]:
    return tuple(
        documents.WrittenRegion(
            region=region,
            written_bytes=write_set.written_bytes(region),
            size=reproducer.manifest.regions[region].size,
            also_input=write_set.also_input(region),
        )
        for region in write_set.regions
    )


def _argument(manifest: schema.Manifest, argument: schema.Argument) -> documents.ResolvedArgument:
    """The argument with its tensors resolved to dtype, shape, strides and address."""
    return documents.ResolvedArgument(
        name=argument.name,
        role=argument.role,
        kind=str(argument.value.__struct_config__.tag),
        tensors=tuple(_tensor(manifest, number) for number in _views_of(argument.value)) or msgspec.UNSET,
    )


def _tensor(manifest: schema.Manifest, number: int) -> documents.ResolvedTensor:
    view = manifest.views[number]
    address = manifest.regions[view.region].base + view.offset
    return documents.ResolvedTensor(
        view=number,
        name=view.name,
        dtype=view.dtype,
        shape=view.shape,
        strides=view.strides,
        region=view.region,
        offset=view.offset,
        address=address,
        alignment=min(address & -address, 4096) if address else 4096,
    )


def _views_of(value: schema.Value) -> Iterator[int]:
    if isinstance(value, schema.TensorValue | schema.DescriptorValue):
        yield value.view
    elif isinstance(value, schema.SequenceValue):
        for item in value.items:
            yield from _views_of(item)


def _aliases(manifest: schema.Manifest) -> list[documents.Alias]:
    """Pairs of tensor arguments whose byte ranges overlap, the first `MAX_ALIASES` of them."""
    ranges = []
    for argument in manifest.arguments:
        whole = not isinstance(argument.value, schema.SequenceValue)
        for number in _views_of(argument.value):
            view = manifest.views[number]
            bounds = view_bounds(view)
            if bounds is not None:
                ranges.append((view.region, *bounds, argument.name if whole else view.name or argument.name))
    ranges.sort()
    found: list[documents.Alias] = []
    for place, (region, first, last, name) in enumerate(ranges):
        for other_region, other_first, other_last, other in ranges[place + 1 :]:
            if other_region != region or other_first >= last or len(found) >= MAX_ALIASES:
                break
            overlap = min(last, other_last) - other_first
            same = (first, last) == (other_first, other_last)
            found.append(
                documents.Alias(arguments=(name, other), region=region, bytes=overlap, same_range=same)
            )
    return found
