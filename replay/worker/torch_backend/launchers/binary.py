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
from .later_stages import STAGES, Made, write_stages

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
        self._module: Any = None
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
        if self._module is not None:
            self._driver.status("cuModuleUnload", self._module)
            self._module = None

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
        self._config.hStream = torch.cuda.current_stream().cuda_stream
        self._driver.call("cuLaunchKernelEx", self._config, self._function, self._parameters, 0)

    def _load(self) -> Any:
        name = str(self._meta.get("name") or self._job["kernel"])
        try:
            self._module = self._driver.call("cuModuleLoadData", self._image)
            return self._driver.call("cuModuleGetFunction", self._module, name.encode())
        except cu.CudaError as error:
            self.unload()
            raise Refused(f"the image does not load here, or has no kernel {name}: {error}") from error

    # --- parameters --------------------------------------------------------------------------------

    def _sizes(self) -> list[int]:
        """Bytes of each parameter of the image. There is no call for their number: it errors past the end."""
        sizes: list[int] = []
        try:
            while True:
                sizes.append(self._driver.call("cuFuncGetParamInfo", self._function, len(sizes))[1])
        except cu.CudaError:
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

    def _buffers(self, packed: list[bytes]) -> int:
        """The address of the parameters' addresses."""
        pointers = []
        for data in packed:
            store = ctypes.create_string_buffer(len(data) + ALIGNMENT)
            at = -(-ctypes.addressof(store) // ALIGNMENT) * ALIGNMENT
            ctypes.memmove(at, data, len(data))
            self._keep.append(store)
            pointers.append(at)
        array = (ctypes.c_void_p * max(1, len(pointers)))(*pointers)
        self._keep.append(array)
        return ctypes.addressof(array)

    # --- configuration -----------------------------------------------------------------------------

    @property
    def _ctas(self) -> int:
        return ctas(self._meta)

    def _configure(self) -> Any:
        shared = int(self._meta.get("shared") or 0)
        if shared > _STATIC_SHARED_BYTES:
            self._allow_shared(shared)
        x, y, z = self._job["launch"]["grid"]
        return self._driver.launch_config(
            (x * self._ctas, y, z), (32 * warps(self._meta), 1, 1), shared, attributes=self._attributes()
        )

    def _allow_shared(self, shared: int) -> None:
        driver = self._driver
        driver.call(
            "cuFuncSetCacheConfig", self._function, driver.api.CUfunc_cache.CU_FUNC_CACHE_PREFER_SHARED
        )
        limit = driver.attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN", self._job["device"])
        dynamic = limit - driver.function_attribute("SHARED_SIZE_BYTES", self._function)
        if shared > dynamic:
            raise Refused(f"the kernel needs {shared:,} bytes of shared memory, this device has {limit:,}")
        driver.set_function_attribute("MAX_DYNAMIC_SHARED_SIZE_BYTES", self._function, dynamic)

    def _attributes(self) -> dict[str, tuple[int, ...]]:
        wanted: dict[str, tuple[int, ...]] = {}
        if self._meta.get("launch_pdl"):
            wanted["PROGRAMMATIC_STREAM_SERIALIZATION"] = (1,)
        if self._meta.get("launch_cooperative_grid"):
            wanted["COOPERATIVE"] = (1,)
        if self._ctas != 1:
            spread = self._driver.api.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
            wanted["CLUSTER_DIMENSION"] = (self._ctas, 1, 1)
            wanted["CLUSTER_SCHEDULING_POLICY_PREFERENCE"] = (spread,)
            if self._ctas > _LARGEST_PORTABLE_CLUSTER:
                self._driver.set_function_attribute("NON_PORTABLE_CLUSTER_SIZE_ALLOWED", self._function, 1)
        return wanted
