"""Images of native kernels: loaded, the kernel found in them, its parameters' layout read back."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path

from ..common.failures import Refused
from . import driver as cu

_LOG_BYTES = 64 * 1024
Layout = list[tuple[int, int]]  # (offset, size) of each parameter


class Image:
    """A loaded module with the kernel of a launch in it."""

    def __init__(self, driver: cu.Driver, module: ctypes.c_void_p, function: ctypes.c_void_p, symbol: str):
        self._driver = driver
        self._module = module
        self.function = function
        self.symbol = symbol

    def unload(self) -> None:
        self._driver.status("cuModuleUnload", self._module)

    def layout(self) -> Layout | None:
        """Offset and size of each parameter; None where the driver can't tell.

        There is no call for their number: it errors past the end.
        """
        if not self._driver.has("cuFuncGetParamInfo"):
            return None
        found: Layout = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while not self._driver.status(
            "cuFuncGetParamInfo", self.function, ctypes.c_size_t(len(found)),
            ctypes.byref(offset), ctypes.byref(size),
        ):  # fmt: skip
            found.append((offset.value, size.value))
        return found

    def variable(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a variable of the module; None if it has none of that name."""
        address, size = ctypes.c_uint64(), ctypes.c_size_t()
        status = self._driver.status(
            "cuModuleGetGlobal_v2", ctypes.byref(address), ctypes.byref(size), self._module,
            ctypes.c_char_p(name.encode()),
        )  # fmt: skip
        return None if status else (int(address.value), int(size.value))


def captured(driver: cu.Driver, paths: Sequence[Path], symbol: str) -> Image:
    """The first of the captured images that this driver takes and that has the kernel.

    Raises Refused with what is wrong with each.
    """
    problems = []
    for path in paths:
        module, problem = _load(driver, path)
        if module is not None:
            function = _function(driver, module, symbol)
            if function is not None:
                return Image(driver, module, function, symbol)
            problem = f"it has no kernel {symbol}"
            driver.status("cuModuleUnload", module)
        problems.append(f"{path.suffix.lstrip('.')}: {problem}")
    raise Refused(f"no captured image can be used here: {'; '.join(problems) or 'it has no image'}")


def candidate(driver: cu.Driver, path: Path, symbol: str, expected: Layout | None) -> Image:
    """A candidate's image: its kernel of the captured name, else its only one, with the captured parameters.

    Raises Refused, naming what does not fit.
    """
    module, problem = _load(driver, path)
    if module is None:
        raise Refused(f"{path.name} does not load: {problem}")
    image = _chosen(driver, module, symbol, path.name)
    layout = image.layout()
    if layout is not None and expected is not None and layout != expected:
        image.unload()
        raise Refused(
            f"{image.symbol} in {path.name} takes parameters of {_sizes(layout)}, "
            f"the captured launch passes {_sizes(expected)}"
        )
    return image


def _chosen(driver: cu.Driver, module: ctypes.c_void_p, symbol: str, file: str) -> Image:
    function = _function(driver, module, symbol)
    if function is not None:
        return Image(driver, module, function, symbol)
    others = _functions(driver, module)
    if len(others) == 1:
        return Image(driver, module, others[0][1], others[0][0])
    driver.status("cuModuleUnload", module)
    names = ", ".join(name for name, _ in others[:8]) or "none that can be listed"
    raise Refused(f"{file} has no kernel {symbol}; it has {names}")


def _load(driver: cu.Driver, path: Path) -> tuple[ctypes.c_void_p | None, str]:
    """The module, or why it does not load: with the assembler's text if there is any."""
    module = ctypes.c_void_p()
    log = ctypes.create_string_buffer(_LOG_BYTES)
    options = (ctypes.c_int * 2)(cu.JIT_ERROR_LOG_BUFFER, cu.JIT_ERROR_LOG_BUFFER_SIZE_BYTES)
    values = (ctypes.c_void_p * 2)(ctypes.addressof(log), _LOG_BYTES)
    text = ctypes.c_char_p(path.read_bytes() + b"\0")  # PTX is text that has to end
    status = driver.status(
        "cuModuleLoadDataEx", ctypes.byref(module), text, ctypes.c_uint(2), options, values
    )  # fmt: skip
    if not status:
        return module, ""
    said = log.value.decode(errors="replace").strip()
    return None, driver.error_name(status) + (f"\n{said}" if said else "")


def _function(driver: cu.Driver, module: ctypes.c_void_p, symbol: str) -> ctypes.c_void_p | None:
    function = ctypes.c_void_p()
    name = ctypes.c_char_p(symbol.encode())
    status = driver.status("cuModuleGetFunction", ctypes.byref(function), module, name)
    return None if status else function


def _functions(driver: cu.Driver, module: ctypes.c_void_p) -> list[tuple[str, ctypes.c_void_p]]:
    """All kernels of a module by name; none before CUDA 12.4, which first lists them."""
    needed = ("cuModuleGetFunctionCount", "cuModuleEnumerateFunctions", "cuFuncGetName")
    count = ctypes.c_uint()
    if not all(map(driver.has, needed)) or driver.status(needed[0], ctypes.byref(count), module):
        return []
    handles = (ctypes.c_void_p * max(1, count.value))()
    if driver.status(needed[1], handles, count, module):
        return []
    found = []
    for handle in handles[: count.value]:
        name = ctypes.c_char_p()
        if not driver.status("cuFuncGetName", ctypes.byref(name), ctypes.c_void_p(handle)) and name.value:
            found.append((name.value.decode(errors="replace"), ctypes.c_void_p(handle)))
    return found


def _sizes(layout: Layout) -> str:
    return f"{', '.join(str(size) for _, size in layout)} bytes" if layout else "no bytes (it has none)"
