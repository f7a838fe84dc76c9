"""One launch of an image, with the parameters, shape and attributes that it was captured with."""

from __future__ import annotations

import ctypes
import struct
from typing import Any

import numpy as np

from ..common.failures import Fault, KernelError, Refused
from ..cuda import driver as cu
from ..cuda.device import Device
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
    cu.ATTRIBUTE_COOPERATIVE, cu.ATTRIBUTE_CLUSTER_DIMENSION, cu.ATTRIBUTE_CLUSTER_SCHEDULING,
    cu.ATTRIBUTE_MEM_SYNC_DOMAIN_MAP, cu.ATTRIBUTE_MEM_SYNC_DOMAIN, cu.ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION,
    cu.ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT,
}  # fmt: skip
_NAMES = {
    1: "the stream's access policy",
    3: "the stream's synchronization policy",
    6: "programmatic stream serialization",
    7: "a programmatic event",
    8: "a priority",
    12: "a launch completion event",
    13: "updates by the device",
}


class Launcher:
    """An image, its variables, and everything that one launch of it passes."""

    def __init__(
        self,
        device: Device,
        image: Image,
        variables: Variables,
        launch: JobLaunch,
        parameters: bytearray,
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
        self._config_pointer = ctypes.byref(self._config)
        self._call = self._driver.function("cuLaunchKernelEx")

    def run(self) -> None:
        """Queue the launch. Raises KernelError if the driver refuses it, Fault if the context is lost."""
        if self._empty:
            return
        status = self._call(self._config_pointer, self.image.function, self._parameters, self._extra)
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
        """The parameters one by one where it is known where each lies; else the buffer as a whole."""
        self._parameters: Any = ctypes.c_void_p()
        self._extra: Any = ctypes.c_void_p()
        if layout is not None:
            if layout:
                self._parameters = (ctypes.c_void_p * len(layout))(*(address + at for at, _ in layout))
        elif size:
            length = ctypes.c_size_t(size)
            self._keep.append(length)
            self._extra = (ctypes.c_void_p * 5)(
                cu.LAUNCH_PARAM_BUFFER_POINTER, address,
                cu.LAUNCH_PARAM_BUFFER_SIZE, ctypes.addressof(length), cu.LAUNCH_PARAM_END,
            )  # fmt: skip

    def _configure(self) -> cu.LaunchConfig:
        launch = self._launch
        shared = int(launch["shared_bytes"] or 0)
        self._allow_shared(shared)
        config = cu.LaunchConfig()
        config.grid[:] = launch["grid"]
        config.block[:] = launch["block"]
        config.shared_bytes = shared
        config.stream = self._device.stream
        attributes = self._attributes()
        array = (cu.LaunchAttribute * max(1, len(attributes)))(*attributes)
        self._keep.append(array)
        config.attributes = array
        config.attribute_count = len(attributes)
        return config

    def _allow_shared(self, shared: int) -> None:
        static = ctypes.c_int()
        self._driver.call(
            "cuFuncGetAttribute", ctypes.byref(static), ctypes.c_int(cu.FUNC_SHARED_SIZE_BYTES),
            self.image.function,
        )  # fmt: skip
        if shared + static.value <= _DEFAULT_SHARED_BYTES:
            return
        status = self._driver.status(
            "cuFuncSetAttribute", self.image.function,
            ctypes.c_int(cu.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES), ctypes.c_int(shared),
        )  # fmt: skip
        if status:
            limit = self._driver.attribute(
                cu.DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, self._device.ordinal
            )  # fmt: skip
            needed = shared + static.value
            raise Refused(f"the kernel needs {needed:,} bytes of shared memory, this device has {limit:,}")

    def _attributes(self) -> list[cu.LaunchAttribute]:
        found = {}
        left_out = []
        for item in self._launch["attributes"]:
            if item["id"] in _KEPT_ATTRIBUTES:
                found[item["id"]] = struct.unpack("<16I", bytes.fromhex(item["value"]))
            elif item["id"]:
                left_out.append(_NAMES.get(item["id"], f"attribute {item['id']}"))
        if left_out:
            self.notes.append(f"launched without {', '.join(left_out)}: they tie the launch to others")
        if self._launch["cooperative"]:
            found.setdefault(cu.ATTRIBUTE_COOPERATIVE, (1,))
        cluster = self._launch["cluster"]
        if cluster is not None and tuple(cluster) != (0, 0, 0):
            found.setdefault(cu.ATTRIBUTE_CLUSTER_DIMENSION, tuple(cluster))
        if cu.ATTRIBUTE_CLUSTER_DIMENSION in found:
            x, y, z = found[cu.ATTRIBUTE_CLUSTER_DIMENSION][:3]
            if x * y * z > _LARGEST_PORTABLE_CLUSTER:
                self._driver.call(
                    "cuFuncSetAttribute", self.image.function,
                    ctypes.c_int(cu.FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED), ctypes.c_int(1),
                )  # fmt: skip
            self._cluster = (x, y, z)
        attributes = []
        for kind, numbers in found.items():
            attribute = cu.LaunchAttribute()
            attribute.id = kind
            attribute.value[: len(numbers)] = numbers
            attributes.append(attribute)
        return attributes


def _layout(launch: JobLaunch) -> Layout | None:
    layout = (launch["parameters"] or {}).get("layout", [])
    return None if layout is None else [(int(offset), int(size)) for offset, size in layout]


def with_scalars(launch: JobLaunch, arguments: list[JobArgument], scalars: dict[str, str]) -> bytearray:
    """The launch's parameters, numeric ones replaced by the encoded values of ``scalars``.

    Raises Refused where it is not known where an argument lies.
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
