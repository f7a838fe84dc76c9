"""A compiled Triton kernel in the driver's terms: the launch that Triton's own launcher would make of it.

The image is all that runs: nothing of torch or Triton is needed. Programmatic stream serialization is left
out, as of every launch here: it would let the launch overtake what is restored before it.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from ..common.failures import Refused
from ..cuda.device import Device
from ..cuda.image import Image
from ..job import Job, JobLaunch
from ..protocol import Compiled, three
from ..triton_launch.launch_values import Pointer, Values
from ..triton_launch.parameters import ALIGNMENT, Parameters, ctas, threads, warps
from .dtypes import is_known


class Addresses(Values):
    """Arguments as the addresses that placed memory has here; ``moved`` counts those that are elsewhere."""

    def __init__(self, job: Job, memory: Any) -> None:
        super().__init__(job)
        self._memory = memory
        self.moved = 0

    def view(self, index: int) -> Pointer:
        view = self.job["views"][index]
        self.moved += view["region"] in self._memory.relocated
        return Pointer(self._memory.regions[view["region"]]["base"] + view["offset"], view["dtype"])

    def pointer(self, value: dict[str, Any], name: str) -> Pointer:
        address = value["address"]
        for index, old in self._memory.relocated.items():
            if 0 <= address - old < self._memory.regions[index]["size"]:
                self.moved += 1
                address += self._memory.regions[index]["base"] - old
                break
        return Pointer(address, value["dtype"])

    def descriptor(self, value: dict[str, Any]) -> Any:
        return SimpleNamespace(
            base=self.view(value["view"]), shape=list(value["shape"]), strides=list(value["strides"]),
            padding=value.get("padding", "zero"),
        )  # fmt: skip


@dataclass
class TritonLaunch:
    """A launch as it is captured of other languages, with its parameters.

    ``buffers`` are scratch on the device, the caller's to free; ``moved`` parameters point to memory that is
    elsewhere than it was captured.
    """

    launch: JobLaunch
    parameters: bytearray
    buffers: list[int] = field(default_factory=list)
    moved: int = 0


def prepared(
    device: Device, memory: Any, job: Job, image: Image, said: dict[str, Any], file: str
) -> TritonLaunch:  # fmt: skip
    """The launch of ``job`` by an image, of which its compiler says ``said``; ``file`` names it.

    Raises Refused for arguments that the image does not take, or that can't be passed here.
    """
    layout = image.layout()
    if layout is None:
        raise Refused("the driver does not say what parameters a kernel takes; CUDA 12.4 or newer does")
    addresses = Addresses(job, memory)
    buffers: list[int] = []

    def zeros(size: int) -> int:
        buffers.append(device.allocate(size))
        device.zero(buffers[-1], size)
        return buffers[-1]

    moved: dict[str, int] = {}  # by argument, each of which may be built twice

    def build(value: dict[str, Any], name: str) -> Any:
        before = addresses.moved
        built = addresses.build(value, name, None)
        moved[name] = addresses.moved - before
        return built

    driver = getattr(device, "driver", None)  # CUDA's
    packed = Parameters(job, said, driver, build, zeros).fitting([size for _, size in layout], file)
    parameters, places = bytearray(), []
    for data, (offset, size) in zip(packed, layout, strict=True):
        if driver is None:  # they lie in one segment, as the code object says
            parameters += bytes(offset - len(parameters))
        places.append((len(parameters), size))
        parameters += data
        if driver is not None:  # it takes the address of each: aligned separately
            parameters += bytes(-len(data) % ALIGNMENT)
    api = None if driver is None else driver.api
    return TritonLaunch(_launch(api, job["launch"], said, places), parameters, buffers, sum(moved.values()))


def _spread(api: Any) -> dict[str, Any]:
    attribute = api.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
    policy = api.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
    return {"id": int(attribute), "value": struct.pack("<16I", policy, *[0] * 15).hex()}


def _launch(api: Any, captured: JobLaunch, said: dict[str, Any], layout: list[tuple[int, int]]) -> JobLaunch:
    x, y, z = captured["grid"]
    cluster = ctas(said)
    return {
        **captured,
        "grid": [x * cluster, y, z],
        "block": [threads(said), 1, 1],
        "shared_bytes": int(said.get("shared") or 0),
        "dispatch": None,
        "cluster": [cluster, 1, 1] if cluster != 1 else None,
        "cooperative": bool(said.get("launch_cooperative_grid")),
        "attributes": [_spread(api)] if cluster != 1 else [],
        "parameters": {"layout": layout},
    }


def described(found: Compiled, said: dict[str, Any], grid: list[int]) -> Compiled:
    """Facts of the image, with what its compiler adds to them."""
    stages = said.get("num_stages")
    found.num_warps = warps(said)
    found.num_stages = stages if isinstance(stages, int) else None
    found.grid = three(grid)  # in clusters, as Triton counts
    return found


def check(job: Job) -> None:
    """Refuse what only torch can compare: types of elements that are not known here."""
    for view in job["views"]:
        if not is_known(str(view["dtype"]), int(view["itemsize"])):
            raise Refused(f"{view['name'] or 'a view'} is of {view['dtype']}, which needs torch")
