"""A layout in which rows have padding behind them, for tensors whose strides are arguments."""

from __future__ import annotations

from kerncap.api.verify.derived_launch import STRIDE_NAME, Layout, blocks
from kerncap.format import schema


def padded(manifest: schema.Manifest, apart: bool = False) -> Layout:
    """Wider rows for every tensor whose strides are arguments; empty without such tensors.

    ``apart``: each tensor by more than the one before, so that equal strides become different ones. Arguments
    are taken to have the order of the tensors; empty if they are not as many.
    """
    layout = Layout()
    named = {
        argument.name: int(argument.value.value)
        for argument in manifest.arguments
        if argument.role == "runtime"
        and isinstance(argument.value, schema.IntValue)
        and STRIDE_NAME.search(argument.name)
    }
    described = {
        argument.value.view
        for argument in manifest.arguments
        if isinstance(argument.value, schema.DescriptorValue)
    }
    wanted: dict[int, list[int]] = {}  # new strides by old ones, of each tensor in turn
    for block in sorted(blocks(manifest), key=lambda block: block.views):
        [number, *others] = block.views
        view = manifest.views[number]
        if others or number in described or len(view.shape) < 2 or 0 in view.shape or view.strides[-1] != 1:
            continue
        strides = _wider(view, 1 + len(layout.strides) * apart)
        changes = {
            old: new
            for old, new, length in zip(view.strides, strides, view.shape, strict=True)
            if old != new and length > 1
        }
        known = all(
            old in named.values() and (apart or {*wanted.get(old, ()), new} == {new})
            for old, new in changes.items()
        )
        if changes and known:
            for old, new in changes.items():
                wanted.setdefault(old, []).append(new)
            layout.strides[number] = strides
    for old, values in wanted.items():
        names = [name for name, value in named.items() if value == old]
        if apart and len(names) != len(values):
            return Layout()
        layout.arguments |= zip(names, values if apart else values[:1] * len(names), strict=True)
    return layout


def _wider(view: schema.View, times: int) -> tuple[int, ...]:
    """Strides with 16 bytes more to each row, ``times`` over, which keeps the usual alignment of tensors."""
    pad = max(1, 16 // view.itemsize) * times
    if any(a < b * n for a, b, n in zip(view.strides, view.strides[1:], view.shape[1:], strict=False)):
        return view.strides  # not row by row
    strides = [1]
    for axis in range(len(view.shape) - 1, 0, -1):
        step = strides[0] * view.shape[axis]
        strides.insert(0, max(view.strides[axis - 1], step) + pad if axis == len(view.shape) - 1 else step)
    return tuple(strides)
