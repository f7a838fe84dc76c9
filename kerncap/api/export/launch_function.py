"""A Triton launch as a function of tensors, from those that it reads to those that it writes."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

import numpy as np
from msgspec.structs import replace

from kerncap.api.export.memory_blocks import Bytes, Contents, Span, require_values
from kerncap.api.export.python_values import Expressions, is_name
from kerncap.api.export.script import allocator, launch_options, torch_dtype, triton_imports
from kerncap.api.export.script_blocks import Layout, lay_out
from kerncap.api.export.triton_source import KernelSource, kernel_source
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.format.schema import View
from kerncap.log import one_line
from kerncap.replay.write_set_units import extent

_OWN_NAMES = ("run", "as_captured", "KERNEL", "OPTIONS", "DEVICE", "torch", "os", "triton")


@dataclass(frozen=True)
class Tensor:
    """A tensor of the launch under the name that it has in the function."""

    name: str
    view: View
    is_input: bool  # the launch reads it, or leaves some of its bytes as they were
    is_output: bool

    @property
    def contiguous(self) -> bool:
        steps = [prod(self.view.shape[axis + 1 :]) for axis in range(len(self.view.shape))]
        return all(
            length == 1 or stride == step
            for length, stride, step in zip(self.view.shape, self.view.strides, steps, strict=True)
        )


@dataclass(frozen=True)
class LaunchFunction:
    """``text`` is a module whose ``run`` takes the inputs and returns the outputs, both in this order."""

    text: str
    tensors: tuple[Tensor, ...]
    contents: Contents

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return tuple(one for one in self.tensors if one.is_input)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return tuple(one for one in self.tensors if one.is_output)

    def before(self, tensor: Tensor) -> bytes:
        """The elements of an input before the launch, in the order of its indices."""
        return _elements(tensor.view, self.contents.read("pre", *_of_region(tensor.view))).tobytes()

    def after(self, tensor: Tensor) -> bytes:
        """The elements of an output after the launch, in the order of its indices."""
        return _elements(tensor.view, self.contents.read("post", *_of_region(tensor.view))).tobytes()


def launch_function(reproducer: Reproducer) -> LaunchFunction:
    """Raises UsageError, naming what makes the launch no function of its tensors."""
    manifest = reproducer.manifest
    where = str(reproducer.path)
    if manifest.oracle.kind != "trusted":
        raise UsageError(
            f"{where}: its result is {manifest.oracle.kind}, and a task asks for a right one; "
            "--as script shows it"
        )
    source = kernel_source(reproducer, ("torch", "triton", "os"))
    require_values(reproducer)
    contents = Contents(reproducer)
    layout = lay_out(contents)
    if layout.pointers:
        raise UsageError(
            f"{where}: its memory holds addresses, which a task would not have; --as script takes it"
        )
    names: dict[View, str] = {}

    def tensor(number: int) -> str:
        view = manifest.views[number]
        same = replace(view, name="", requires_grad=False, storage=None)
        return names.setdefault(same, _name(view.name, {*names.values(), *source.names}))

    def address(value: int, dtype: str, name: str) -> str:
        raise UsageError(f"{where}: argument {one_line(name)} is a bare address; --as script takes it")

    values = Expressions(where, tensor, address, source.functions)
    arguments = {one.name: values.of(one.value, one.name) for one in manifest.arguments}
    for name in arguments:
        if not is_name(name):
            raise UsageError(
                f"{where}: argument {one_line(name)} can't be passed by name; --as script takes it"
            )
    tensors = tuple(_effects(contents, layout, names, where))
    if not any(one.is_output for one in tensors):
        raise UsageError(f"{where}: the launch changes no tensor, so there is nothing to ask for")
    options = values.mapping(launch_options(manifest))
    text = _module(source, values, arguments, tensors, tuple(manifest.launch.grid), options)
    ast.parse(text)  # whatever the manifest holds: what is written is a program
    return LaunchFunction(text, tensors, contents)


def _name(given: str, taken: set[str]) -> str:
    plain = re.sub(r"[^A-Za-z0-9]+", "_", given).strip("_") or "tensor"
    plain = plain if is_name(plain) else f"t_{plain}"
    name, number = plain, 1
    while name in taken or name in _OWN_NAMES:
        number += 1
        name = f"{plain}_{number}"
    return name


def _of_region(view: View) -> tuple[int, int, int]:
    """(region, first byte, bytes) of a view."""
    low, high = extent(view)
    return view.region, low, high - low


def _elements(view: View, data: Bytes) -> Bytes:
    """Its elements as rows of bytes, out of the bytes of its extent."""
    strides = (*(stride * view.itemsize for stride in view.strides), 1)
    return np.lib.stride_tricks.as_strided(data, (*view.shape, view.itemsize), strides, writeable=False)


def _effects(contents: Contents, layout: Layout, names: dict[View, str], where: str) -> Iterator[Tensor]:
    """What the launch does to each tensor. Raises UsageError for effects that no tensor shows."""
    spans = {view: Span(view.region, *extent(view)) for view in names}
    written = [view for view in names if _flipped(contents, spans[view], view).any()]
    for view in written:
        for other in names:
            if other != view and _overlap(spans[view], spans[other]):
                raise UsageError(
                    f"{where}: {names[view]} is written and shares memory with {names[other]}; "
                    "--as script keeps that"
                )
    for block in layout.blocks:
        if _flipped_elsewhere(
            contents, block.span, [view for view in written if view.region == block.span.region]
        ):
            raise UsageError(
                f"{where}: the launch writes memory that no tensor argument shows; --as script takes it"
            )
    for view, name in names.items():
        is_output = view in written
        only = contents.only_written(*_of_region(view)) if is_output else None
        whole = only is not None and bool(_elements(view, only.view(np.uint8)).all())
        yield Tensor(name, view, not whole, is_output)


def _flipped(contents: Contents, span: Span, view: View) -> Bytes:
    flips = [flip for _, _, flip in contents.pieces(span)]
    return _elements(view, np.concatenate(flips)) if flips else np.zeros(0, np.uint8)


def _flipped_elsewhere(contents: Contents, span: Span, written: list[View]) -> bool:
    """Whether the launch writes bytes of a block that none of these views has."""
    outside = np.concatenate([flip for _, _, flip in contents.pieces(span)] or [np.zeros(0, np.uint8)])
    for view in written:
        low, high = extent(view)
        if span.start <= low and high <= span.stop:
            inside = outside[low - span.start : high - span.start]
            strides = (*(stride * view.itemsize for stride in view.strides), 1)
            np.lib.stride_tricks.as_strided(inside, (*view.shape, view.itemsize), strides)[...] = 0
    return bool(outside.any())


def _overlap(one: Span, other: Span) -> bool:
    return one.region == other.region and one.start < other.stop and other.start < one.stop


# --- the text --------------------------------------------------------------------------------------------


def _module(
    source: KernelSource, values: Expressions, arguments: dict[str, str], tensors: tuple[Tensor, ...],
    grid: tuple[int, ...], options: str,
) -> str:  # fmt: skip
    inputs = [one.name for one in tensors if one.is_input]
    device = f"{inputs[0]}.device" if inputs else "DEVICE"
    body = list(_prepared(tensors, device))
    passed = ", ".join(f"{name}={expression}" for name, expression in arguments.items())
    body.append(f"KERNEL[{grid!r}]({passed}, **OPTIONS)" if passed else f"KERNEL[{grid!r}](**OPTIONS)")
    body.append(f"return {', '.join(one.name for one in tensors if one.is_output)}")
    made = allocator(source)
    unwrap = "autotune" in source.text or "heuristics" in source.text
    text = (
        source.future
        + ("import collections\n" if "collections" in values.imports else "")
        + "import os\n\nimport torch\n"
        + triton_imports(values, source).rstrip("\n")
        + f"\n\n\n{source.text}\n\n\nKERNEL = {source.entry}\n"
        + (_UNWRAPPED if unwrap else "")
        + f'OPTIONS = {{}} if os.environ.get("TRITON_INTERPRET") == "1" else {options}\n'
        + ('DEVICE = "cuda" if torch.cuda.is_available() else "cpu"\n' if made or not inputs else "")
        + made
        + (_AS_CAPTURED if any("as_captured(" in line for line in body) else "")
        + f"\n\ndef run({', '.join(inputs)}):\n"
        + "".join(f"    {line}\n" for line in body)
    )
    return re.sub(r"\n{4,}", "\n\n\n", text)


def _prepared(tensors: tuple[Tensor, ...], device: str) -> Iterator[str]:
    for one in tensors:
        shape, strides = repr(tuple(one.view.shape)), repr(tuple(one.view.strides))
        if not one.is_input:
            dtype = torch_dtype(one.view)
            yield f"{one.name} = torch.empty_strided({shape}, {strides}, dtype={dtype}, device={device})"
        elif one.is_output or not one.contiguous:
            yield f"{one.name} = as_captured({one.name}, {strides})"


_UNWRAPPED = """\
while hasattr(KERNEL.fn, "fn"):  # past autotuning: the captured configuration is the one that is launched
    KERNEL = KERNEL.fn
"""
_AS_CAPTURED = '''

def as_captured(tensor, strides):
    """A copy with the strides that the tensor had in the application."""
    return torch.empty_strided(tensor.shape, strides, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
'''

__all__ = ["LaunchFunction", "Tensor", "launch_function"]
