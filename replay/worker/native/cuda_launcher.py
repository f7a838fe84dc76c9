"""One launch of an image, with the parameters, shape and attributes that it was captured with."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..common.failures import Fault, KernelError, Refused
from ..cuda.device import Device
from ..cuda.driver import CudaError
from ..cuda.image import Image, Layout
from ..cuda.kernel_resources import of_function
from ..job import JobArgument, JobLaunch
from ..protocol import Compiled
from .variables import Variables

_DEFAULT_SHARED_BYTES = 48 * 1024  # beyond it a kernel must ask
_LARGEST_PORTABLE_CLUSTER = 8
_ALIGNMENT = 128  # a TMA map among the parameters has to be aligned to 64

# Attributes that mean something without the rest of the application. Left out: events, priorities, policies
# of a stream, and programmatic serialization, which would let the launch overtake what is restored before it.
_KEPT_ATTRIBUTES = {
    "COOPERATIVE", "CLUSTER_DIMENSION", "CLUSTER_SCHEDULING_POLICY_PREFERENCE", "MEM_SYNC_DOMAIN_MAP",
    "MEM_SYNC_DOMAIN", "PREFERRED_CLUSTER_DIMENSION", "PREFERRED_SHARED_MEMORY_CARVEOUT",
    "NVLINK_UTIL_CENTRIC_SCHEDULING", "PORTABLE_CLUSTER_SIZE_MODE", "SHARED_MEMORY_MODE",
}  # fmt: skip
_NAMES = {
    "ACCESS_POLICY_WINDOW": "the stream's access policy",
    "SYNCHRONIZATION_POLICY": "the stream's synchronization policy",
    "PROGRAMMATIC_STREAM_SERIALIZATION": "programmatic stream serialization",
    "PROGRAMMATIC_EVENT": "a programmatic event",
    "PRIORITY": "a priority",
    "LAUNCH_COMPLETION_EVENT": "a launch completion event",
    "DEVICE_UPDATABLE_KERNEL_NODE": "updates by the device",
}


class Launcher:
    """An image, its variables, and everything that one launch of it passes."""

    def __init__(
        self, device: Device, image: Image, variables: Variables, launch: JobLaunch, parameters: bytearray
    ) -> None:
        self._device = device
        self._driver = device.driver
        self.image = image
        self.variables = variables
        self._launch = launch
        self._empty = 0 in launch["grid"]
        self._store = ctypes.create_string_buffer(len(parameters) + _ALIGNMENT)
        at = -(-ctypes.addressof(self._store) // _ALIGNMENT) * _ALIGNMENT
        ctypes.memmove(at, bytes(parameters), len(parameters))
        self._keep: list[Any] = []
        self._cluster = (1, 1, 1)
        self.notes: list[str] = []
        self._pass(at, len(parameters), _layout(launch))
        self._config = self._configure()

    def run(self) -> None:
        """Queue the launch. Raises KernelError if the driver refuses it, Fault if the context is lost."""
        if self._empty:
            return
        status = self._driver.status(
            "cuLaunchKernelEx", self._config, self.image.function, self._parameters, self._extra
        )
        if status:
            message = f"cuLaunchKernelEx: {self._driver.error_name(status)}"
            if self._driver.status("cuCtxSynchronize"):
                raise Fault(message)
            raise KernelError(message)

    def facts(self) -> Compiled:
        """Facts of the function as it is launched."""
        x, y, z = self._cluster
        return of_function(self._driver, self._device.ordinal, self.image.function, self._config, x * y * z)

    def _pass(self, address: int, size: int, layout: Layout | None) -> None:
        """The parameters one by one if it is known where each lies; else the buffer as a whole."""
        self._parameters = self._extra = 0
        if layout is not None:
            if layout:
                self._parameters = self._kept(
                    (ctypes.c_void_p * len(layout))(*(address + at for at, _ in layout))
                )
        elif size:
            api, length = self._driver.api, self._kept(ctypes.c_size_t(size))
            self._extra = self._kept(
                (ctypes.c_void_p * 5)(
                    api.CU_LAUNCH_PARAM_BUFFER_POINTER, address, api.CU_LAUNCH_PARAM_BUFFER_SIZE, length,
                    api.CU_LAUNCH_PARAM_END,
                )
            )  # fmt: skip

    def _kept(self, value: Any) -> int:
        """The address of a value that lives as long as this."""
        self._keep.append(value)
        return ctypes.addressof(value)

    def _configure(self) -> Any:
        grid, block = self._launch["grid"], self._launch["block"]
        assert block is not None  # as of every launch that is no source's
        shared = int(self._launch["shared_bytes"] or 0)
        self._allow_shared(shared)
        return self._driver.launch_config(grid, block, shared, self._device.stream, self._attributes())

    def _allow_shared(self, shared: int) -> None:
        needed = shared + self._driver.function_attribute("SHARED_SIZE_BYTES", self.image.function)
        if needed <= _DEFAULT_SHARED_BYTES:
            return
        try:
            self._driver.set_function_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", self.image.function, shared)
        except CudaError as error:
            limit = self._driver.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", self._device.ordinal)
            raise Refused(
                f"the kernel needs {needed:,} bytes of shared memory, this device has {limit:,}"
            ) from error

    def _attributes(self) -> dict[str, Sequence[int]]:
        found: dict[str, Sequence[int]] = {}
        left_out = []
        for item in self._launch["attributes"]:
            name = self._attribute_name(item["id"])
            if name in _KEPT_ATTRIBUTES:
                found[name] = struct.unpack("<16I", bytes.fromhex(item["value"]))
            elif item["id"]:
                left_out.append(_NAMES.get(name, f"attribute {item['id']}"))
        if left_out:
            self.notes.append(f"launched without {', '.join(left_out)}: for what runs with it")
        if self._launch["cooperative"]:
            found.setdefault("COOPERATIVE", (1,))
        cluster = self._launch["cluster"]
        if cluster is not None and tuple(cluster) != (0, 0, 0):
            found.setdefault("CLUSTER_DIMENSION", tuple(cluster))
        if "CLUSTER_DIMENSION" in found:
            x, y, z = found["CLUSTER_DIMENSION"][:3]
            if x * y * z > _LARGEST_PORTABLE_CLUSTER:
                self._driver.set_function_attribute(
                    "NON_PORTABLE_CLUSTER_SIZE_ALLOWED", self.image.function, 1
                )
            self._cluster = (x, y, z)
        return found

    def _attribute_name(self, number: int) -> str:
        try:
            name: str = self._driver.api.CUlaunchAttributeID(number).name
        except ValueError:  # of a driver that is newer than the bindings
            return ""
        return name.removeprefix("CU_LAUNCH_ATTRIBUTE_")


def _layout(launch: JobLaunch) -> Layout | None:
    layout = (launch["parameters"] or {}).get("layout", [])
    return None if layout is None else [(int(offset), int(size)) for offset, size in layout]


def with_scalars(launch: JobLaunch, arguments: list[JobArgument], scalars: dict[str, str]) -> bytearray:
    """The launch's parameters, numeric ones replaced by the encoded values of ``scalars``.

    Raises Refused if it is not known where an argument lies.
    """
    data = bytearray.fromhex((launch["parameters"] or {}).get("bytes", ""))
    layout = _layout(launch)
    for name, text in scalars.items():
        index = next(i for i, argument in enumerate(arguments) if argument["name"] == name)
        if layout is None or len(layout) != len(arguments):
            raise Refused(f"argument {name}: its place among the parameters is unknown")
        offset, size = layout[index]
        if arguments[index]["value"]["kind"] == "float":
            number = float(text) if text.lstrip("-") in ("inf", "nan") else float.fromhex(text)
            kind = {2: np.float16, 4: np.float32, 8: np.float64}.get(size)
            if kind is None:
                raise Refused(f"argument {name}: no float has {size} bytes")
            data[offset : offset + size] = kind(number).tobytes()
        else:
            number = int(text) & ((1 << (8 * size)) - 1)
            data[offset : offset + size] = number.to_bytes(size, "little")
    return data
