"""The CUDA driver through cuda.bindings: each call checked, and what fails raised by its name.

cuda.bindings is imported with the first `Driver`, not with this module: launches of other vendors share code
with those of CUDA. Handles stay the objects that the driver's calls gave.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from ..common.checked_library import CallFailed
from ..common.failures import Refused
from ..cuda_bindings import Missing, load

_UNKNOWN_STATUS = re.compile(r"(\d+)(?: is not a valid CUresult)?")
_ATTRIBUTE = struct.Struct("<16I")  # the value of a launch attribute


class CudaError(CallFailed):
    """A driver call that failed."""


class Driver:
    """libcuda. ``api`` is `cuda.bindings.driver`, for its structures and constants."""

    def __init__(self) -> None:
        """Raises Refused without cuda.bindings, or without a driver."""
        try:
            self.api = load("driver")
        except Missing as error:
            raise Refused(error.mended) from error
        try:
            self.api.cuDriverGetVersion()
        except RuntimeError as error:
            raise Refused(f"there is no CUDA driver: {error}") from error

    def call(self, name: str, *arguments: Any) -> Any:
        """What ``name`` gives: nothing, a value, or a tuple of several.

        Raises CudaError, or Refused if the driver or cuda.bindings lacks the call.
        """
        status, *found = self._called(name, arguments)
        if status:
            raise CudaError(name, status, self.error_name(status))
        return found[0] if len(found) == 1 else tuple(found) or None

    def status(self, name: str, *arguments: Any) -> int:
        """The status of a call, unchecked. Raises Refused as `call` does."""
        return int(self._called(name, arguments)[0])

    def function(self, name: str) -> Any:
        """The call itself, which gives (status, values…), for loops in which each microsecond counts."""
        try:
            return getattr(self.api, name)
        except AttributeError as error:
            raise Refused(f"this cuda-bindings has no {name}; pip install --upgrade cuda-bindings") from error

    def _called(self, name: str, arguments: tuple[Any, ...]) -> Any:
        function = self.function(name)
        try:
            return function(*arguments)
        except RuntimeError as error:  # also of a driver that is older than the bindings
            raise Refused(f"this CUDA driver has no {name}") from error
        except (ValueError, KeyError) as error:  # the status of a driver that is newer
            unknown = _UNKNOWN_STATUS.fullmatch(str(error))
            if unknown is None:
                raise
            return [int(unknown[1])]

    def error_name(self, status: int) -> str:
        """``CUDA_ERROR_ILLEGAL_ADDRESS``, or the number of one that cuda.bindings has no name for."""
        try:
            return str(self.api.CUresult(status).name)
        except ValueError:
            return f"error {status}"

    @property
    def version(self) -> str:
        """``13.0``"""
        version = self.call("cuDriverGetVersion")
        return f"{version // 1000}.{version % 1000 // 10}"

    def device_name(self, ordinal: int) -> str:
        name: bytes = self.call("cuDeviceGetName", 256, ordinal)
        return name.partition(b"\0")[0].decode(errors="replace")

    def attribute(self, name: str, device: int) -> int:
        """An attribute of a device: ``MULTIPROCESSOR_COUNT``."""
        which = getattr(self.api.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(self.call("cuDeviceGetAttribute", which, device))

    def function_attribute(self, name: str, function: Any) -> int:
        """An attribute of a kernel: ``NUM_REGS``."""
        return int(self.call("cuFuncGetAttribute", self._of_function(name), function))

    def set_function_attribute(self, name: str, function: Any, value: int) -> None:
        self.call("cuFuncSetAttribute", function, self._of_function(name), value)

    def _of_function(self, name: str) -> Any:
        return getattr(self.api.CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")

    def use(self, ordinal: int) -> None:
        """Start, and make the primary context of a device, which torch and Triton use, the current one."""
        self.call("cuInit", 0)
        context = self.call("cuDevicePrimaryCtxRetain", self.call("cuDeviceGet", ordinal))
        self.call("cuCtxSetCurrent", context)

    def launch_config(
        self, grid: Sequence[int], block: Sequence[int], shared_bytes: int = 0, stream: Any = 0,
        attributes: Mapping[str, Sequence[int]] | None = None,
    ) -> Any:  # fmt: skip
        """A CUlaunchConfig. ``attributes`` by name (``CLUSTER_DIMENSION``), their values as 32-bit words."""
        config = self.api.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = grid
        config.blockDimX, config.blockDimY, config.blockDimZ = block
        config.sharedMemBytes = shared_bytes
        config.hStream = stream
        config.attrs = [self._launch_attribute(*item) for item in (attributes or {}).items()]
        config.numAttrs = len(config.attrs)
        return config

    def _launch_attribute(self, name: str, words: Sequence[int]) -> Any:
        value = self.api.CUlaunchAttributeValue()
        value.pad = _ATTRIBUTE.pack(*words, *[0] * (16 - len(words)))
        attribute = self.api.CUlaunchAttribute()
        attribute.id = getattr(self.api.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name}")
        attribute.value = value
        return attribute
