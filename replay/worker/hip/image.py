"""Code objects of HIP kernels: loaded, the kernel found in them, and their variables.

What a code object says of its kernels comes from kerncap's process (`protocol.HipImage`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..common.failures import Refused
from ..native.moved_pointers import Move
from ..protocol import HipImage
from . import hsa
from .device import Device

Layout = list[tuple[int, int]]  # (offset, size) of each parameter
_SUFFIX = ".kd"


class Image:
    """A loaded code object with the kernel of a launch in it. ``is_captured``: not a candidate's."""

    def __init__(
        self, device: Device, loaded: _Loaded, name: str, is_captured: bool, facts: HipImage | None
    ) -> None:
        self._device = device
        self._loaded = loaded
        self.symbol = name
        self.is_captured = is_captured
        symbol = loaded.kernels[name]
        self._objects = facts.objects if facts is not None else {}
        self._moved = facts.moved if facts is not None else []
        kernel = facts.kernel if facts is not None else None
        self.metadata = kernel if kernel is not None and kernel.name == name else None
        self.kernel_object = self._fact(symbol, hsa.SYMBOL_KERNEL_OBJECT, 8)
        self.kernarg_bytes = self._fact(symbol, hsa.SYMBOL_KERNARG_SIZE)
        self.group_bytes = self._fact(symbol, hsa.SYMBOL_GROUP_SIZE)
        self.private_bytes = self._fact(symbol, hsa.SYMBOL_PRIVATE_SIZE)
        self.has_dynamic_stack = bool(self._fact(symbol, hsa.SYMBOL_DYNAMIC_CALLSTACK, 1))

        loaded.uses += 1

    def sibling(self, symbol: str, facts: HipImage | None) -> Image:
        """Another kernel of the same code object. Raises Refused if it has none of that name."""
        if symbol not in self._loaded.kernels:
            raise Refused(f"the code object has no kernel {symbol}")
        return Image(self._device, self._loaded, symbol, False, facts)

    def unload(self) -> None:
        self._loaded.uses -= 1
        if not self._loaded.uses:
            self._loaded.unload()

    def layout(self) -> Layout | None:
        """Offset and size of each explicit argument; None if the code object does not say."""
        return None if self.metadata is None else self.metadata.explicit

    def variable(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a variable of the code object; None if it has none of that name.

        One whose name stays inside (``static __device__``) lies as far from the kernel's descriptor as in the
        file.
        """
        found = self._loaded.variables.get(name)
        inside, descriptor = self._objects.get(name), self._objects.get(self.symbol + _SUFFIX)
        if found is not None or inside is None or descriptor is None:
            return found
        return inside[0] - descriptor[0] + self.kernel_object, inside[1]

    def code_moves(self) -> list[Move]:
        """Where captured addresses of code lead in this image."""
        descriptor = self._objects.get(self.symbol + _SUFFIX)
        if descriptor is None:
            return []
        added = self.kernel_object - descriptor[0]
        return [Move(captured, size, added + place) for captured, size, place in self._moved]

    def _fact(self, symbol: int, which: int, size: int = 4) -> int:
        return self._device.runtime.number("hsa_executable_symbol_get_info", symbol, which, size)


class _Loaded:
    """A frozen executable: its kernels by name (without .kd) and its variables."""

    def __init__(self, device: Device, path: Path) -> None:
        """Raises Refused with what ROCr says."""
        self._runtime = device.runtime
        self.uses = 0  # by images
        self._executable = self._reader = 0
        self._data = path.read_bytes()  # ROCr reads it as long as the reader lives
        if not self._data.startswith(b"\x7fELF"):
            raise Refused("not a code object: it is not an ELF file")
        try:
            self._load(device)
        except hsa.HsaError as error:
            self.unload()
            raise Refused(str(error)) from error
        self.kernels: dict[str, int] = {}
        self.variables: dict[str, tuple[int, int]] = {}
        for symbol in device.runtime.symbols(self._executable, device.agent):
            self._note(symbol)

    def unload(self) -> None:
        if self._executable:
            self._runtime.status("hsa_executable_destroy", self._executable)
        if self._reader:
            self._runtime.status("hsa_code_object_reader_destroy", self._reader)

    def _load(self, device: Device) -> None:
        runtime = self._runtime
        self._reader = runtime.reader(self._data)
        self._executable = runtime.executable()
        runtime.call(
            "hsa_executable_load_agent_code_object", self._executable, device.agent, self._reader, None, None
        )
        runtime.call("hsa_executable_freeze", self._executable, None)

    def _note(self, symbol: int) -> None:
        runtime, info = self._runtime, "hsa_executable_symbol_get_info"
        length = runtime.number(info, symbol, hsa.SYMBOL_NAME_LENGTH)
        name = runtime.text(info, symbol, hsa.SYMBOL_NAME, length)[:length]
        kind = runtime.number(info, symbol, hsa.SYMBOL_TYPE)
        if kind == hsa.SYMBOL_KIND_KERNEL:
            self.kernels[name.removesuffix(_SUFFIX)] = symbol
        elif kind == hsa.SYMBOL_KIND_VARIABLE:
            address = runtime.number(info, symbol, hsa.SYMBOL_VARIABLE_ADDRESS, 8)
            self.variables[name] = address, runtime.number(info, symbol, hsa.SYMBOL_VARIABLE_SIZE)


def captured(device: Device, paths: Sequence[Path], symbol: str, facts: HipImage | None) -> Image:
    """The first of the captured code objects that loads here and has the kernel; ``facts`` are its own.

    Raises Refused with what is wrong with each.
    """
    problems = []
    symbol = symbol.removesuffix(_SUFFIX)
    for path in paths:
        try:
            loaded = _Loaded(device, path)
        except Refused as error:
            problems.append(f"{path.suffix.lstrip('.')}: {error}")
            continue
        if symbol in loaded.kernels:
            return Image(device, loaded, symbol, True, facts)
        loaded.unload()
        problems.append(f"{path.suffix.lstrip('.')}: it has no kernel {symbol}")
    raise Refused(f"no captured image can be used here: {'; '.join(problems) or 'it has no image'}")


def candidate(
    device: Device, path: Path, symbol: str, expected: Layout | None, facts: HipImage | None
) -> Image:
    """A candidate's code object: its kernel of the captured name, else its only one, with the captured
    arguments.

    Raises Refused, naming what does not fit.
    """
    symbol = symbol.removesuffix(_SUFFIX)
    try:
        loaded = _Loaded(device, path)
    except Refused as error:
        raise Refused(f"{path.name} does not load on {device.arch}: {error}") from error
    name = symbol if symbol in loaded.kernels or len(loaded.kernels) != 1 else next(iter(loaded.kernels))
    if name not in loaded.kernels:
        loaded.unload()
        names = ", ".join(sorted(loaded.kernels)[:8]) or "none"
        raise Refused(f"{path.name} has no kernel {symbol}; it has {names}")
    image = Image(device, loaded, name, False, facts)
    layout = image.layout()
    if layout is not None and expected is not None and layout != expected:
        image.unload()
        raise Refused(
            f"{name} in {path.name} takes parameters of {_sizes(layout)}, "
            f"the captured launch passes {_sizes(expected)}"
        )
    return image


def _sizes(layout: Layout) -> str:
    return f"{', '.join(str(size) for _, size in layout)} bytes" if layout else "no bytes (it has none)"
