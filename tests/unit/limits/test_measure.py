"""The measurement on a made-up device whose speed is known: what it finds is that speed."""

from __future__ import annotations

import ctypes
import importlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from kerncap.replay.limits import ceilings

bindings = pytest.importorskip("cuda.bindings.driver")

FOLDER = Path(__file__).parents[3] / "replay" / "worker"
NAME = "_measured_worker"


@pytest.fixture(scope="module")
def measure() -> Any:
    """The module as a worker loads it: by path, under a private name."""
    path = FOLDER / "__init__.py"
    spec = importlib.util.spec_from_file_location(NAME, path, submodule_search_locations=[str(FOLDER)])
    assert spec is not None and spec.loader is not None
    package = importlib.util.module_from_spec(spec)
    sys.modules[NAME] = package
    spec.loader.exec_module(package)
    yield importlib.import_module(f"{NAME}.limits.measure")
    for name in [one for one in sys.modules if one.split(".")[0] == NAME]:
        del sys.modules[name]


SPEED = {"memory": 4e12, "fp32": 60e12, "mma": 400e12, "wgmma": 800e12, "other": 10e12}
LAUNCH_S = 1.5e-6


class Device:
    """A driver that runs nothing: its clock goes on by what each launch would take.

    It stands in for `cuda.bindings.driver`: constants are the package's, calls succeed and do what is below.
    """

    def __init__(
        self, capability: int = 90, free: int = 100 << 30, refuse: str = "", fault: str = ""
    ) -> None:
        self.attributes = {
            "MULTIPROCESSOR_COUNT": 132, "CLOCK_RATE": 1_980_000, "MEMORY_CLOCK_RATE": 3_201_000,
            "GLOBAL_MEMORY_BUS_WIDTH": 6144, "L2_CACHE_SIZE": 60 << 20,
            "COMPUTE_CAPABILITY_MAJOR": capability // 10, "COMPUTE_CAPABILITY_MINOR": capability % 10,
        }  # fmt: skip
        self.free, self.refuse, self.fault = free, refuse, fault
        self.now = 0.0
        self.texts: list[str] = []
        self.stamps: list[float] = []
        self.captured: list[float] | None = None
        self.graph_s = 0.0
        self.lost = False
        self.allocations = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("cu"):
            return lambda *arguments: (0,)
        return getattr(bindings, name)

    def cuDeviceGetAttribute(self, which: Any, device: int) -> Any:
        return 0, self.attributes[which.name.removeprefix("CU_DEVICE_ATTRIBUTE_")]

    def cuMemHostAlloc(self, size: int, flags: int) -> Any:
        self.staging = ctypes.create_string_buffer(size)
        return 0, ctypes.addressof(self.staging)

    def cuStreamCreate(self, flags: int) -> Any:
        return 0, 1

    def cuEventCreate(self, flags: int) -> Any:
        self.stamps.append(0.0)
        return 0, len(self.stamps) - 1

    def cuDeviceGetName(self, size: int, device: int) -> Any:
        return 0, b"Made Up\0\0"

    def cuDriverGetVersion(self) -> Any:
        return 0, 13000

    def cuMemGetInfo(self) -> Any:
        return 0, self.free, self.free

    def cuMemAlloc(self, size: int) -> Any:
        self.allocations += 1
        return 0, self.allocations << 40

    def cuModuleLoadData(self, text: bytes) -> Any:
        self.texts.append(text.decode())
        if self.refuse and self.refuse in self.texts[-1]:
            return bindings.CUresult.CUDA_ERROR_INVALID_PTX, None
        return 0, len(self.texts) - 1

    def cuModuleGetFunction(self, module: int, name: bytes) -> Any:
        return 0, module

    def cuLaunchKernel(self, function: int, blocks: int, *rest: Any) -> Any:
        text, ((_, _, words, rounds), _) = self.texts[function], rest[-2]
        self.lost |= bool(self.fault) and self.fault in text
        taken = max(LAUNCH_S, self._seconds(text, blocks * 8, words, rounds))
        if self.captured is not None:
            self.captured.append(taken)
        else:
            self.now += taken
        return (0,)

    @staticmethod
    def _seconds(text: str, warps: int, words: int, rounds: int) -> float:
        if "ROUND:" in text:
            return words * 16 * rounds * (("ld.global" in text) + ("st.global.v4" in text)) / SPEED["memory"]
        for mark, kind, each in (
            ("wgmma.mma", "wgmma", 2 * 64 * 256 * 16 // 4), ("m16n8k16", "mma", 2 * 16 * 8 * 16),
            ("fma.rn.f32 ", "fp32", 64),
        ):  # fmt: skip
            if mark in text:
                return warps * rounds * text.count(mark) * each / SPEED[kind]
        return rounds * 1e-6 if "LOOP:" in text else 0.0

    def cuEventRecord(self, event: int, stream: Any) -> Any:
        self.stamps[event] = self.now
        return (0,)

    def cuEventElapsedTime(self, begin: int, end: int) -> Any:
        return 0, (self.stamps[end] - self.stamps[begin]) * 1e3

    def cuStreamBeginCapture(self, stream: Any, mode: Any) -> Any:
        self.captured = []
        return (0,)

    def cuStreamEndCapture(self, stream: Any) -> Any:
        assert self.captured is not None
        self.graph_s, self.captured = sum(self.captured), None
        return 0, 1

    def cuGraphInstantiate(self, graph: Any, flags: int) -> Any:
        return 0, 1

    def cuGraphLaunch(self, graph: Any, stream: Any) -> Any:
        self.now += self.graph_s
        return (0,)

    def cuStreamQuery(self, stream: Any) -> Any:
        return (bindings.CUresult.CUDA_ERROR_LAUNCH_FAILED if self.lost else 0,)


def measured(measure: Any, device: Device) -> Any:
    """The document of a measurement on it."""
    driver = object.__new__(measure.cu.Driver)
    driver.api = device
    return measure.Measurement(driver, 0).run()


def test_what_is_found_is_the_devices_speed(measure: Any) -> None:
    document = measured(measure, Device())
    found = ceilings.from_dict(document)
    assert found.missing == {}
    for name in ("dram_read", "dram_write", "dram_copy", "l2"):
        assert found.rate(f"{name}_bytes_per_s") == pytest.approx(SPEED["memory"], rel=1e-3), name
    assert found.rate("fp32_per_s") == pytest.approx(SPEED["fp32"], rel=1e-3)
    assert found.rate("tensor_bf16_per_s") == pytest.approx(SPEED["wgmma"], rel=1e-3)
    assert found.how["tensor_bf16_per_s"] == "wgmma" and found.how["tensor_fp64_per_s"] == "mma.sync"
    assert found.rate("launch_us") == pytest.approx(LAUNCH_S * 1e6, rel=1e-3)
    assert (found.arch, found.driver, found.sm_count) == ("sm_90", "13.0", 132)


def test_an_older_chip_has_what_it_has(measure: Any) -> None:
    document = measured(measure, Device(capability=80))
    assert document["ceilings"]["tensor_fp16_per_s"] == pytest.approx(SPEED["mma"], rel=1e-3)
    assert "tensor_fp8_per_s" in document["missing"] and "tensor_fp8_per_s" not in document["ceilings"]


def test_kernels_that_the_driver_refuses_are_named(measure: Any) -> None:
    document = measured(measure, Device(refuse="wgmma"))
    assert document["how"]["tensor_bf16_per_s"] == "mma.sync"
    assert document["missing"]["tensor_bf16_per_s"].startswith("cuModuleLoadData")


def test_after_a_fault_nothing_more_is_measured(measure: Any) -> None:
    document = measured(measure, Device(fault="wgmma"))
    assert document["ceilings"]["fp32_per_s"] > 0
    assert "tensor_fp16_per_s" not in document["ceilings"]
    assert all(
        "CUDA_ERROR_LAUNCH_FAILED" in document["missing"][f"tensor_{kind}_per_s"] for kind in ("fp16", "fp64")
    )


def test_a_full_device_has_no_bandwidth_of_memory(measure: Any) -> None:
    document = measured(measure, Device(free=100 << 20))
    assert "free" in document["missing"]["dram_copy_bytes_per_s"]
    assert document["ceilings"]["l2_bytes_per_s"] > 0
