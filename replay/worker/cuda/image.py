"""Images of native kernels: loaded, the kernel found in them, its parameters' layout read back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..common.failures import Refused
from . import driver as cu

_LOG_BYTES = 64 * 1024
Layout = list[tuple[int, int]]  # (offset, size) of each parameter


class Image:
    """A loaded module with the kernel of a launch in it; ``uses``: of the module, by images."""

    def __init__(
        self, driver: cu.Driver, module: Any, function: Any, symbol: str, uses: list[int] | None = None
    ) -> None:
        self._driver = driver
        self._module = module
        self.function = function
        self.symbol = symbol
        self._uses = [0] if uses is None else uses
        self._uses[0] += 1

    def sibling(self, symbol: str, _hip: None = None) -> Image:
        """Another kernel of the same module. Raises Refused if it has none of that name."""
        function = _function(self._driver, self._module, symbol)
        if function is None:
            raise Refused(f"the image has no kernel {symbol}")
        return Image(self._driver, self._module, function, symbol, self._uses)

    def unload(self) -> None:
        self._uses[0] -= 1
        if not self._uses[0]:
            self._driver.status("cuModuleUnload", self._module)

    def layout(self) -> Layout | None:
        """Offset and size of each parameter; None if the driver can't tell.

        There is no call for their number: it errors past the end.
        """
        found: Layout = []
        try:
            while True:
                found.append(self._driver.call("cuFuncGetParamInfo", self.function, len(found)))
        except cu.CudaError:
            return found
        except Refused:
            return None

    def variable(self, name: str) -> tuple[int, int] | None:
        """(address, size) of a variable of the module; None if it has none of that name."""
        try:
            address, size = self._driver.call("cuModuleGetGlobal", self._module, name.encode())
        except cu.CudaError:
            return None
        return int(address), int(size)


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


def _chosen(driver: cu.Driver, module: Any, symbol: str, file: str) -> Image:
    function = _function(driver, module, symbol)
    if function is not None:
        return Image(driver, module, function, symbol)
    others = _functions(driver, module)
    if len(others) == 1:
        return Image(driver, module, others[0][1], others[0][0])
    driver.status("cuModuleUnload", module)
    names = ", ".join(name for name, _ in others[:8]) or "none that can be listed"
    raise Refused(f"{file} has no kernel {symbol}; it has {names}")


def _load(driver: cu.Driver, path: Path) -> tuple[Any, str]:
    """The module, or why it does not load: with the assembler's text if there is any."""
    log, option = bytearray(_LOG_BYTES), driver.api.CUjit_option
    options = [option.CU_JIT_ERROR_LOG_BUFFER, option.CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES]
    text = path.read_bytes() + b"\0"  # PTX is text that has to end
    try:
        return driver.call("cuModuleLoadDataEx", text, len(options), options, [log, len(log)]), ""
    except cu.CudaError as error:
        said = log.partition(b"\0")[0].decode(errors="replace").strip()
        return None, error.name + (f"\n{said}" if said else "")


def _function(driver: cu.Driver, module: Any, symbol: str) -> Any:
    try:
        return driver.call("cuModuleGetFunction", module, symbol.encode())
    except cu.CudaError:
        return None


def _functions(driver: cu.Driver, module: Any) -> list[tuple[str, Any]]:
    """All kernels of a module by name; none before CUDA 12.4, which first lists them."""
    try:
        handles = driver.call(
            "cuModuleEnumerateFunctions", driver.call("cuModuleGetFunctionCount", module), module
        )
        return [(driver.call("cuFuncGetName", each).decode(errors="replace"), each) for each in handles]
    except (cu.CudaError, Refused):
        return []


def _sizes(layout: Layout) -> str:
    return f"{', '.join(str(size) for _, size in layout)} bytes" if layout else "no bytes (it has none)"
