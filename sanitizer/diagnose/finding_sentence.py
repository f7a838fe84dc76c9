"""From a confirmed witness to what the user reads: one sentence, and the evidence for it."""

from __future__ import annotations

from collections.abc import Sequence

from kerncap.sanitizer.analysis import Analysis
from kerncap.sanitizer.diagnose.place import (
    Assignment,
    base_address,
    place_of,
    tensor_behind,
    tensor_of,
    value_at,
)
from kerncap.sanitizer.diagnose.render import address_expression, mask_expression
from kerncap.sanitizer.findings import Check, Finding, Note, Place
from kerncap.sanitizer.launch import Launch, TensorArgument
from kerncap.sanitizer.walk.access import Access, Target


def access_finding(
    analysis: Analysis,
    access: Access,
    check: Check,
    target: Target | None,
    assignment: Assignment,
    message: str,
    *,
    argument: str | None = None,
    beyond_bytes: int | None = None,
    lands_in: str | None = None,
    suggestion: str | None = None,
    contents: bool = False,
    note: Note | None = None,
) -> Finding:
    """A finding about one access at one point; ``argument`` overrides the name that the target gives."""
    place = place_of(analysis, access, assignment, target)
    tensor = None if target is None else tensor_of(analysis.launch, target.argument)
    expression, mask_expression = expressions_of(access)
    return Finding(
        check=check,
        access=access.kind,
        location=access.location,
        message=message,
        place=place,
        argument=place.argument if argument is None else argument,
        shape=None if tensor is None else tensor.shape,
        strides=None if tensor is None else tensor.strides,
        width_bytes=access.width_bytes,
        beyond_bytes=beyond_bytes,
        lands_in=lands_in,
        expression=expression,
        mask_expression=mask_expression,
        suggestion=suggestion,
        contents=contents,
        note=note,
        python_stack=analysis.launch.python_stack,
    )


def expressions_of(access: Access) -> tuple[str | None, str | None]:
    """The address and the mask in the kernel's own names, or None."""
    pointer, mask = access.pointer_operand, access.mask_operand
    return (
        None if pointer is None else address_expression(pointer),
        None if mask is None else mask_expression(mask),
    )


def bytes_of_memory(analysis: Analysis, access: Access, target: Target, assignment: Assignment) -> str:
    """``store of 4 bytes at scores_ptr + 1000 (byte 4,000)``."""
    return access_at(access.kind, access.width_bytes, place_of(analysis, access, assignment, target))


def access_at(kind: str, width_bytes: int, place: Place) -> str:
    """The same of a place."""
    verb = "atomic access to" if kind == "atomic" else f"{kind} of"
    return f"{verb} {count_bytes(width_bytes)} at {spot_of(place)}"


def spot_of(place: Place) -> str:
    """``out_ptr + 5 (byte 20)``: in elements of the argument, as the kernel adds them, and in bytes.

    In bytes alone between elements, and an address if there is no argument.
    """
    if place.offset_bytes is None:
        return "an unknown address" if place.argument is None else f"an unknown place in {place.argument}"
    if place.argument is None:
        return hex(place.offset_bytes)
    if place.element is None:
        return f"{place.argument} {_signed(place.offset_bytes, ',')} bytes"
    same = place.element == place.offset_bytes
    return f"{place.argument} {_signed(place.element)}" + ("" if same else f" (byte {place.offset_bytes:,})")


def _signed(number: int, form: str = "") -> str:
    return f"- {format(-number, form)}" if number < 0 else f"+ {format(number, form)}"


def where(analysis: Analysis, access: Access, assignment: Assignment) -> str:
    """``program (3, 0, 0), lane 232, k = 5``."""
    return describe_place(place_of(analysis, access, assignment))


def describe_place(place: Place) -> str:
    parts = [f"program {place.program_id}"]
    if len(place.lane) == 1:
        parts.append(f"lane {place.lane[0]}")
    elif place.lane:
        parts.append(f"lane {place.lane}")
    parts += [f"{name} = {value}" for name, value in place.iterations]
    return ", ".join(parts)


def describe_tensor(tensor: TensorArgument) -> str:
    """``float32[96, 96], strides (128, 1)``; contiguous strides go without saying."""
    text = f"{tensor.dtype}{list(tensor.shape)}"
    return text if tensor.strides == contiguous_strides(tensor.shape) else f"{text}, strides {tensor.strides}"


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * max(1, extent))
    return tuple(reversed(strides)) if shape else ()


def memory_at(launch: Launch, address: int, other_than: int | None) -> str | None:
    """The name of what another argument's tensor (else any storage) has at an address."""
    from kerncap.sanitizer.footprint import footprint

    in_storage = None
    for index, argument in enumerate(launch.arguments):
        tensor = tensor_behind(argument)
        if tensor is None or index == other_than:
            continue
        covered = footprint(tensor.shape, tensor.strides, tensor.itemsize)
        if tensor.address + covered.first <= address < tensor.address + covered.end:
            return tensor.name
        storage = launch.storages[tensor.storage]
        if storage.address <= address < storage.address + storage.size_bytes:
            in_storage = in_storage or tensor.name
    if in_storage is not None:
        return in_storage
    for storage in launch.storages:
        if storage.address <= address < storage.address + storage.size_bytes:
            return storage.name or None  # what is left of an allocator's block says nothing
    return None


def address_at(analysis: Analysis, target: Target, assignment: Assignment) -> int | None:
    """The absolute address that the target leads to at a point."""
    offset = value_at(analysis, target.offset_bytes, assignment)
    return None if offset is None else base_address(analysis.launch, target.argument) + offset


def count_bytes(count: int) -> str:
    return "1 byte" if count == 1 else f"{count:,} bytes"
