"""What two manifests say of the launch, its arguments and its surroundings, fact by fact."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import numpy as np

from kerncap.api.diff.pairing import Pairs, Pointers
from kerncap.format import Reproducer, schema
from kerncap.format.schema import Manifest
from kerncap.log import one_line
from kerncap.replay.memory_names import view_name
from kerncap.replay.write_set_units import units
from kerncap.report.documents.diff import Change
from kerncap.report.inspect_text import value_text

# More than a compiler or a copy engine makes use of is chance: where an allocator happened to put it.
_MOST_ALIGNED = {"host": 16, "device": 128}
_MOST_TEXT = 300
_MOST_PAIRED = 10_000_000  # regions times views: beyond it nobody wrote them by hand
_WORD = 8
# Of what the compiler says of a kernel: who compiled it, and where its files lay.
_PLACED = ("name", "hash", "triton_version", "extern_libs", "cache_key")


def launch(a: Manifest, b: Manifest) -> list[Change]:
    """Kernel, grid, block, options, attributes, device, how it was launched and how it ended."""
    return _changes(_launch(a), _launch(b))


def environment(a: Manifest, b: Manifest) -> list[Change]:
    """Versions, hosts, drivers: what explains a difference, and does not count as one."""
    return _changes(_environment(a), _environment(b))


def arguments(a: Reproducer, b: Reproducer, pairs: Pairs) -> list[Change]:
    """Values, types, shapes, strides, alignment; and which tensors share memory."""
    first, second = a.manifest, b.manifest
    pointers = Pointers(first, second, pairs.regions)
    alike = _alike_parameters(first, second, pointers)
    found: list[Change] = []
    there = {argument.name: number for number, argument in enumerate(second.arguments)}
    names = [argument.name for argument in first.arguments]
    if len(names) == len(second.arguments) and not set(names) & set(there):
        there = dict(zip(names, range(len(names)), strict=True))  # all renamed: by position
    for number, argument in enumerate(first.arguments):
        if argument.name not in there:
            found.append(Change(argument.name, _value(first, argument.value), None))
            continue
        other = there[argument.name]
        same = number == other and number in alike
        found += _argument(first, argument, second, second.arguments[other], same, pointers)
    for argument in second.arguments:
        if argument.name not in names and set(there) & {argument.name}:
            found.append(Change(argument.name, None, _value(second, argument.value)))
    found += _changes({"aliases": _aliases(first)}, {"aliases": _aliases(second)})
    if not first.arguments and not second.arguments and alike == {-1}:
        found.append(Change("parameters", _parameters(first), _parameters(second)))
    return found


def _changes(a: dict[str, str], b: dict[str, str]) -> list[Change]:
    return [
        Change(name, a.get(name), b.get(name))
        for name in dict.fromkeys([*a, *b])
        if a.get(name) != b.get(name)
    ]


def _launch(m: Manifest) -> dict[str, str]:
    launch, kernel, device = m.launch, m.kernel, m.device
    found = {
        "kernel": kernel.qualified_name, "mangled": kernel.mangled, "language": kernel.language,
        "grid": _dimensions(launch.grid), "block": _dimensions(launch.block),
        "cluster": _dimensions(launch.cluster), "shared bytes": launch.shared_bytes,
        "cooperative": launch.cooperative or None, "mode": launch.mode, "device": device.kind,
        "architecture": device.arch, "oracle": m.oracle.kind, "error": m.oracle.error,
        "condition": m.oracle.condition,
    }  # fmt: skip
    facts = {name: one_line(value, _MOST_TEXT) for name, value in found.items() if value is not None}
    if launch.dispatch is not None:
        facts |= {f"dispatch {k}": str(v) for k, v in msgspec.to_builtins(launch.dispatch).items()}
    facts |= {f"attribute {one.id}": one.value.rstrip("0") or "0" for one in launch.attributes}
    facts |= {f"option {name}": _text(value) for name, value in launch.options.items()}
    if m.autotune is not None:  # what it chose is among the arguments and options
        facts["autotuned over"] = f"{len(m.autotune.configs)} configurations"
    facts |= {f"compiled {name}": _text(value) for name, value in m.compiled.items() if name not in _PLACED}
    facts["closure"] = m.closure.mode
    return facts


def _environment(m: Manifest) -> dict[str, str]:
    found = {
        "captured": m.created, "by": f"{m.tool.name} {m.tool.version}", "format": f"1.{m.version.minor}",
        "command": " ".join(m.command), "system": f"{m.platform.system} {m.platform.machine}",
        "python": m.platform.python, "device": m.device.name, "ordinal of the device": m.device.ordinal,
        "device memory": m.device.memory_bytes, "driver": m.device.driver,
        "launch number": m.launch.ordinal, "route": m.launch.route, "stream": m.launch.stream,
        "consistency": m.closure.consistency,
        "called from": _caller(m),
        "defined in": f"{m.kernel.file}:{m.kernel.line}" if m.kernel.file else None,
    }  # fmt: skip
    facts = {name: one_line(value, _MOST_TEXT) for name, value in found.items() if value is not None}
    facts |= {name: one_line(version) for name, version in m.platform.packages.items()}
    facts |= {f"compiled {name}": _text(m.compiled[name]) for name in _PLACED if name in m.compiled}
    return facts | {f"${name}": one_line(value, _MOST_TEXT) for name, value in m.environment.items()}


def _caller(m: Manifest) -> str | None:
    stack = m.launch.python_stack
    return f"{stack[-1][0]}:{stack[-1][1]} in {stack[-1][2]}" if stack else None


def _dimensions(numbers: tuple[int, int, int] | None) -> str | None:
    return None if numbers is None else "x".join(map(str, numbers))


def _text(value: schema.Value) -> str:
    return one_line(value_text(msgspec.to_builtins(value)), _MOST_TEXT)


# --- arguments -------------------------------------------------------------------------------------


def _argument(
    a: Manifest, one: schema.Argument, b: Manifest, other: schema.Argument, same: bool, pointers: Pointers
) -> Iterator[Change]:
    name = one.name if one.name == other.name else f"{one.name} / {other.name}"
    facts = (("role", "role"), ("signature", "type"), ("divisibility", "divisible by"))
    for attribute, word in facts:
        values = getattr(one, attribute), getattr(other, attribute)
        if values[0] != values[1]:
            before, after = (None if value is None else one_line(value, _MOST_TEXT) for value in values)
            yield Change(f"{name}: {word}", before, after)
    views = list(_views(one.value)), list(_views(other.value))
    if len(views[0]) == len(views[1]) and views[0]:
        for first, second in zip(*views, strict=True):
            yield from _view(a, first, b, second)
        if _without_views(one.value) == _without_views(other.value):
            return
    if same or _same_pointer(one.value, other.value, pointers):
        return
    before, after = _value(a, one.value), _value(b, other.value)
    if _without_views(one.value) != _without_views(other.value) and before != after:
        yield Change(name, before, after)


def _view(a: Manifest, first: int, b: Manifest, second: int) -> Iterator[Change]:
    one, other = a.views[first], b.views[second]
    name = view_name(a, first)
    for word, values in {
        "dtype": (one.dtype, other.dtype),
        "shape": (_list(one.shape), _list(other.shape)),
        "strides": (_list(one.strides), _list(other.strides)),
        "requires grad": (str(one.requires_grad), str(other.requires_grad)),
        "aligned to": (str(_alignment(a, first)), str(_alignment(b, second))),
    }.items():
        if values[0] != values[1]:
            yield Change(f"{name}: {word}", *values)


def _alignment(m: Manifest, number: int) -> int:
    view = m.views[number]
    region = m.regions[view.region]
    address = region.base + view.offset
    most = _MOST_ALIGNED["host" if region.kind == "host" else "device"]
    return min(address & -address, most) if address else most


def _views(value: schema.Value) -> Iterator[int]:
    if isinstance(value, schema.TensorValue | schema.DescriptorValue):
        yield value.view
    elif isinstance(value, schema.SequenceValue):
        for item in value.items:
            yield from _views(item)


def _without_views(value: schema.Value) -> Any:
    """The value with no number of a view in it: those are compared as views."""
    plain = msgspec.to_builtins(value)

    def strip(one: Any) -> Any:
        if one["kind"] in ("tensor", "descriptor"):
            return {**one, "view": 0}
        if one["kind"] == "sequence":
            return {**one, "items": [strip(item) for item in one["items"]]}
        return one

    return strip(plain)


def _value(m: Manifest, value: schema.Value) -> str:
    return one_line(value_text(msgspec.to_builtins(value), _PlainViews(m.views)), _MOST_TEXT)


class _PlainViews(Sequence[Any]):
    """Views as `value_text` takes them, made one by one: there may be a million."""

    def __init__(self, views: tuple[schema.View, ...]) -> None:
        self._views = views

    def __len__(self) -> int:
        return len(self._views)

    def __getitem__(self, number: Any) -> Any:
        return msgspec.to_builtins(self._views[number])


def _same_pointer(a: schema.Value, b: schema.Value, pointers: Pointers) -> bool:
    """Whether both are addresses of the same place: pointers, or integers that a program casts."""
    addresses = []
    for value in (a, b):
        if isinstance(value, schema.PointerValue):
            addresses.append(value.address)
        elif isinstance(value, schema.IntValue) and 0 <= int(value.value) < 1 << 63:
            addresses.append(int(value.value))
        else:
            return False
    return bool(pointers.alike(*(np.array([address], dtype=np.uint64) for address in addresses))[0])


def _aliases(m: Manifest) -> str:
    """The groups of tensors that share bytes."""
    if len(m.regions) * len(m.views) > _MOST_PAIRED:
        return ""
    groups = [unit.views for unit in units(m) if len(unit.views) > 1]
    return "; ".join(sorted(", ".join(sorted(view_name(m, n) for n in group)) for group in groups))[
        :_MOST_TEXT
    ]


def _list(numbers: tuple[int, ...]) -> str:
    return "[" + ", ".join(map(str, numbers)) + "]"


# --- the parameter buffer of a native launch ---------------------------------------------------------


def _alike_parameters(a: Manifest, b: Manifest, pointers: Pointers) -> set[int]:
    """Numbers of the parameters whose bytes are equal once pointers are.

    {-1} if there is no layout to tell parameters apart and the whole buffers differ.
    """
    if a.launch.parameters is None or b.launch.parameters is None:
        return set()
    data = [bytes.fromhex(one.launch.parameters.bytes) for one in (a, b) if one.launch.parameters]
    layouts = [one.launch.parameters.layout for one in (a, b) if one.launch.parameters]
    if layouts[0] is None or layouts[0] != layouts[1]:
        return set() if _alike(data[0], data[1], 0, pointers) else {-1}
    return {
        number
        for number, (offset, size) in enumerate(layouts[0])
        if _alike(data[0][offset : offset + size], data[1][offset : offset + size], offset, pointers)
    }


def _alike(a: bytes, b: bytes, offset: int, pointers: Pointers) -> bool:
    if len(a) != len(b):
        return False
    skew = -offset % _WORD
    words = (len(a) - skew) // _WORD
    if words <= 0:
        return a == b
    stop = skew + words * _WORD
    if a[:skew] != b[:skew] or a[stop:] != b[stop:]:
        return False
    x, y = (np.frombuffer(one[skew:stop], dtype="<u8") for one in (a, b))
    return bool(((x == y) | pointers.alike(x, y)).all())


def _parameters(m: Manifest) -> str:
    found = m.launch.parameters
    return "" if found is None else f"{len(found.bytes) // 2} bytes: {found.bytes[:160]}"
