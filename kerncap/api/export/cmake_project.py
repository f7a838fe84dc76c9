"""A launch with its code and parameters as a CMake project in CUDA or HIP."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from kerncap.api.export import code_addresses
from kerncap.api.export.launch_header import launch_header
from kerncap.api.export.memory_blocks import Bytes, Contents, Pointer, Span, Targets, require_values
from kerncap.api.export.project_words import facts, file_stem, notes_on, title
from kerncap.api.export.rebuild import rebuild
from kerncap.api.export.static_variables import idle_static_variables
from kerncap.api.export.templates import filled
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from kerncap.log import one_line
from kerncap.replay import hip_code_places

_PAGE = 4096
_HEAD = struct.Struct("<IIQQ")  # region, whether it is what to flip, offset, bytes that follow
_IMAGES = {"cuda": ("cubin", "fatbin", "ptx"), "hip": ("hsaco",)}
_INCLUDES = {"cuda": "#include <cuda.h>", "hip": "#include <hip/hip_runtime_api.h>"}


def write_native(reproducer: Reproducer, folder: Path) -> tuple[str, ...]:
    """Write the project into ``folder``; what a user should know of it.

    Raises UsageError, naming what keeps the launch from being exported.
    """
    manifest = reproducer.manifest
    require_values(reproducer)
    vendor = _vendor(reproducer)
    images = _write_images(reproducer, folder, vendor)
    contents = Contents(reproducer)
    code_addresses.require_none(reproducer, contents)
    words = _words(contents)
    left_out = idle_static_variables(reproducer, contents) if vendor == "hip" else set()
    with (folder / "memory.bin").open("wb") as file:
        contents.poisoned = contents.changed = 0
        for index in range(len(manifest.regions)):
            if index not in left_out:
                file.writelines(_records(contents, index))
    stem = file_stem(manifest)
    name = f"replay_{stem}"
    values = {"TITLE": _comment(title(manifest)), "FACTS": _comment(facts(manifest)), "NAME": name}
    device = (
        filled(f"device_{vendor}.cpp.in", {}).rstrip("\n") + "\n" + filled("beside.cpp.in", {}).rstrip("\n")
    )
    program = filled(
        "main.cpp.in",
        {**values, "TITLE": _comment(title(manifest), "//"), "FACTS": _comment(facts(manifest), "//"),
         "INCLUDES": _INCLUDES[vendor], "DEVICE": device},
    )  # fmt: skip
    _write(folder / "main.cpp", program)
    _write(folder / "launch.h", launch_header(manifest, vendor, images, words, contents.poisoned, left_out))
    recipe, notes = rebuild(reproducer, folder, vendor, name)
    _write(
        folder / "CMakeLists.txt", filled(f"{vendor}.cmake.in", {**values, "REBUILD": recipe}).rstrip() + "\n"
    )
    return (*_notes(contents, manifest), *notes)


def _vendor(reproducer: Reproducer) -> str:
    manifest = reproducer.manifest
    kind = manifest.device.kind
    if kind not in _IMAGES:
        raise UsageError(
            f"{reproducer.path}: it was captured on a {kind}, with no code for a GPU: use --as script"
        )
    if manifest.launch.textures:
        raise UsageError(
            f"{reproducer.path}: it uses textures, which an exported project can't make; use replay"
        )
    if manifest.launch.parameters is None or manifest.launch.block is None:
        raise UsageError(
            f"{reproducer.path}: {one_line(manifest.kernel.name)} was taken at Triton's own launch, whose "
            "parameter buffer is not in the reproducer: use --as script"
        )
    return kind


def _write_images(reproducer: Reproducer, folder: Path, vendor: str) -> list[str]:
    found = []
    for stage in _IMAGES[vendor]:
        data = reproducer.code(stage)
        if data is not None:
            (folder / "code").mkdir(exist_ok=True)
            (folder / "code" / f"kernel.{stage}").write_bytes(data)
            found.append(f"code/kernel.{stage}")
    if not found:
        raise UsageError(
            f"{reproducer.path}: it holds no code for the device (one of {', '.join(_IMAGES[vendor])})"
        )
    return found


# --- memory ----------------------------------------------------------------------------------------------


def _records(contents: Contents, index: int) -> Iterator[bytes]:
    """A region's bytes that are not zero, page by page, as main.cpp reads them."""
    size = contents.reproducer.manifest.regions[index].size
    for start, after, flip in contents.pieces(Span(index, 0, size)):
        for is_flip, data in enumerate((after, flip)):
            for first, stop in _stretches(data):
                yield _HEAD.pack(index, is_flip, start + first, stop - first)
                yield data[first:stop].tobytes()


def _stretches(data: Bytes) -> Iterator[tuple[int, int]]:
    """[first, stop) of the stretches of pages that are not all zero."""
    whole = len(data) // _PAGE * _PAGE
    used = data[:whole].reshape(-1, _PAGE).any(axis=1)
    if whole < len(data):
        used = np.append(used, data[whole:].any())
    edges = np.flatnonzero(np.diff(np.concatenate([[False], used, [False]]).astype(np.int8)))
    for first, stop in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        yield first * _PAGE, min(stop * _PAGE, len(data))


def _words(contents: Contents) -> list[Pointer]:
    """The words, of parameters and of memory, that point to a variable of the kernel's module.

    The module puts its variables where it likes; all else lies where it was.
    """
    manifest = contents.reproducer.manifest
    variables = [
        i for i, region in enumerate(manifest.regions) if region.kind == "global" and not region.module
    ]
    targets = Targets(contents.reproducer, variables)
    assert manifest.launch.parameters is not None
    buffer = np.frombuffer(bytes.fromhex(manifest.launch.parameters.bytes), np.uint8)
    found = targets.pointers(buffer, -1, 0)
    if not variables:
        return found
    for index, region in enumerate(manifest.regions):
        skew = -region.base % 8
        for start, after, flip in contents.pieces(Span(index, skew, max(skew, region.size))):
            both = targets.pointers(after, index, start) + targets.pointers(after ^ flip, index, start)
            for word in dict.fromkeys(both):
                if flip[word.offset - start : word.offset - start + 8].any():
                    name = one_line(manifest.regions[word.target].name or "a variable")
                    raise UsageError(
                        f"{contents.reproducer.path}: the launch writes the address of {name} (byte "
                        f"{word.offset} of region {index}), which differs in every process"
                    )
                found.append(word)
    return found


# --- words -----------------------------------------------------------------------------------------------


def _notes(contents: Contents, manifest: Manifest) -> Iterator[str]:
    oracle = manifest.oracle.kind
    yield from notes_on(contents.reproducer)
    if oracle in ("fault", "timeout"):
        yield f"in the application the launch ended with a {oracle}: the project passes if it does not"
    elif oracle != "trusted":
        yield f"the application's result is {oracle}: agreeing with it does not prove the kernel right"
    if hip_code_places.is_unplaced(contents.reproducer):
        yield "nothing says where the application had the code: a pointer to a function leads elsewhere"
    if any(region.kind == "managed" for region in manifest.regions):
        yield "managed memory is plain device memory in the project"


def _comment(text: str, mark: str = "#") -> str:
    """Lines of a comment; the first one's mark stands in the template."""
    return f"\n{mark} ".join(text.splitlines())


def _write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
