"""The launcher that runs the captured image (or a candidate's) as Triton's own launcher did."""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any

import torch

from ...common.failures import Refused
from ...cuda import driver as cu
from ...cuda import kernel_resources
from ...job import Job
from ...protocol import Compiled, three
from ...triton_launch.parameters import ALIGNMENT, Parameters, ctas, metadata, warps
from ..placed_values import PlacedValues
from .stages import STAGES, Made, write_stages

NAME = "binary"

_STATIC_SHARED_BYTES = 48 * 1024  # beyond it a kernel must ask
_LARGEST_PORTABLE_CLUSTER = 8


class Binary:
    """One cubin with the launch's parameters packed.

    ``made`` is what a candidate was made into: its image, and what its compiler says of it over the captured
    facts; without it ``path`` is the image, with the captured facts.
    """

    def __init__(self, path: Path, job: Job, values: PlacedValues, made: Made | None = None) -> None:
        started = time.perf_counter()
        self._driver: cu.Driver = values.memory.driver
        self._job = job
        self._path = path
        self._made = made
        self._meta = metadata(job, path.name) if made is None else made.metadata
        self._image = path.read_bytes() if made is None else made.image
        self._module = ctypes.c_void_p()
        self._function = self._load()
        self._keep: list[Any] = []  # buffers that the launch points to
        try:
            self._parameters = self._pack(values)
            self._config = self._configure()
        except BaseException:
            self.unload()
            raise
        self._compile_ms = (time.perf_counter() - started) * 1e3 + (made.compile_ms if made else 0.0)

    def compiled(self, folder: Path) -> Compiled:
        """Facts of the image; stages that were made for it become files in ``folder``."""
        found = kernel_resources.of_function(
            self._driver, self._job["device"], self._function, self._config, self._ctas
        )
        stages = self._meta.get("num_stages")
        found.num_warps = warps(self._meta)
        found.num_stages = stages if isinstance(stages, int) else None
        found.compile_ms = self._compile_ms
        found.grid = three(self._job["launch"]["grid"])  # in clusters, as Triton counts
        found.stages = self._stages(folder)
        return found

    def unload(self) -> None:
        """Give back what the device holds for it. Nothing of it may still run."""
        if self._module.value:
            self._driver.status("cuModuleUnload", self._module)
            self._module = ctypes.c_void_p()

    def _stages(self, folder: Path) -> dict[str, str]:
        if self._made is not None:
            return write_stages(self._made.stages, folder)
        own = {stage: file for stage, file in self._job["code"].items() if stage in STAGES}
        if str(Path(self._job["folder"]) / own.get("cubin", "")) == str(self._path):
            return own
        return write_stages({"cubin": self._image}, folder)

    def run(self) -> None:
        if 0 in self._job["launch"]["grid"]:
            return
        self._config.stream = torch.cuda.current_stream().cuda_stream
        self._driver.call(
            "cuLaunchKernelEx",
            ctypes.byref(self._config),
            self._function,
            self._parameters,
            ctypes.c_void_p(),
        )

    def _load(self) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        name = str(self._meta.get("name") or self._job["kernel"])
        try:
            self._driver.call("cuModuleLoadData", ctypes.byref(self._module), ctypes.c_char_p(self._image))
            self._driver.call(
                "cuModuleGetFunction", ctypes.byref(function), self._module, ctypes.c_char_p(name.encode())
            )
        except cu.CudaError as error:
            self.unload()
            raise Refused(f"the image does not load here, or has no kernel {name}: {error}") from error
        return function

    # --- parameters --------------------------------------------------------------------------------

    def _sizes(self) -> list[int]:
        """Bytes of each parameter of the image. There is no call for their number: it errors past the end."""
        sizes: list[int] = []
        offset, size = ctypes.c_size_t(), ctypes.c_size_t()
        while not self._driver.status(
            "cuFuncGetParamInfo",
            self._function,
            ctypes.c_size_t(len(sizes)),
            ctypes.byref(offset),
            ctypes.byref(size),
        ):
            sizes.append(size.value)
        return sizes

    def _pack(self, values: PlacedValues) -> Any:
        def build(value: dict[str, Any], name: str) -> Any:
            built = values.build(value, name, None)
            self._keep.append(built)
            return built

        def zeros(size: int) -> int:
            buffer = torch.zeros(size, dtype=torch.uint8, device="cuda")
            self._keep.append(buffer)
            return int(buffer.data_ptr())

        parameters = Parameters(self._job, self._meta, self._driver, build, zeros)
        return self._buffers(parameters.fitting(self._sizes(), self._path.name))

    def _buffers(self, packed: list[bytes]) -> Any:
        pointers = []
        for data in packed:
            store = ctypes.create_string_buffer(len(data) + ALIGNMENT)
            at = -(-ctypes.addressof(store) // ALIGNMENT) * ALIGNMENT
            ctypes.memmove(at, data, len(data))
            self._keep.append(store)
            pointers.append(at)
        return (ctypes.c_void_p * max(1, len(pointers)))(*pointers)

    # --- configuration -----------------------------------------------------------------------------

    @property
    def _ctas(self) -> int:
        return ctas(self._meta)

    def _configure(self) -> cu.LaunchConfig:
        shared = int(self._meta.get("shared") or 0)
        if shared > _STATIC_SHARED_BYTES:
            self._allow_shared(shared)
        x, y, z = self._job["launch"]["grid"]
        config = cu.LaunchConfig()
        config.grid[:] = [x * self._ctas, y, z]
        config.block[:] = [32 * warps(self._meta), 1, 1]
        config.shared_bytes = shared
        attributes = self._attributes()
        array = (cu.LaunchAttribute * max(1, len(attributes)))(*attributes)
        self._keep.append(array)
        config.attributes = array
        config.attribute_count = len(attributes)
        return config

    def _allow_shared(self, shared: int) -> None:
        self._driver.call("cuFuncSetCacheConfig", self._function, ctypes.c_int(cu.FUNC_CACHE_PREFER_SHARED))
        limit, static, device = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(self._job["device"])
        self._driver.call(
            "cuDeviceGetAttribute",
            ctypes.byref(limit),
            ctypes.c_int(cu.DEVICE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN),
            device,
        )
        self._driver.call(
            "cuFuncGetAttribute",
            ctypes.byref(static),
            ctypes.c_int(cu.FUNC_SHARED_SIZE_BYTES),
            self._function,
        )
        if shared > limit.value - static.value:
            raise Refused(
                f"the kernel needs {shared:,} bytes of shared memory, this device has {limit.value:,}"
            )
        self._driver.call(
            "cuFuncSetAttribute", self._function, ctypes.c_int(cu.FUNC_MAX_DYNAMIC_SHARED_SIZE_BYTES),
            ctypes.c_int(limit.value - static.value),
        )  # fmt: skip

    def _attributes(self) -> list[cu.LaunchAttribute]:
        wanted: list[tuple[int, list[int]]] = []
        if self._meta.get("launch_pdl"):
            wanted.append((cu.ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION, [1]))
        if self._meta.get("launch_cooperative_grid"):
            wanted.append((cu.ATTRIBUTE_COOPERATIVE, [1]))
        if self._ctas != 1:
            wanted.append((cu.ATTRIBUTE_CLUSTER_DIMENSION, [self._ctas, 1, 1]))
            wanted.append((cu.ATTRIBUTE_CLUSTER_SCHEDULING, [cu.CLUSTER_SCHEDULING_SPREAD]))
            if self._ctas > _LARGEST_PORTABLE_CLUSTER:
                self._driver.call(
                    "cuFuncSetAttribute", self._function,
                    ctypes.c_int(cu.FUNC_NON_PORTABLE_CLUSTER_SIZE_ALLOWED), ctypes.c_int(1),
                )  # fmt: skip
        attributes = []
        for kind, numbers in wanted:
            attribute = cu.LaunchAttribute()
            attribute.id = kind
            attribute.value[: len(numbers)] = numbers
            attributes.append(attribute)
        return attributes
