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
    """A driver that runs nothing: its clock goes on by what each launch would take."""

    def __init__(
        self, capability: int = 90, free: int = 100 << 30, refuse: str = "", fault: str = ""
    ) -> None:
        self.attributes = {16: 132, 13: 1_980_000, 36: 3_201_000, 37: 6144, 38: 60 << 20}
        self.attributes |= {75: capability // 10, 76: capability % 10}
        self.free, self.refuse, self.fault = free, refuse, fault
        self.now = 0.0
        self.texts: dict[int, str] = {}
        self.stamps: dict[int, float] = {}
        self.captured: list[float] | None = None
        self.graph_s = 0.0
        self.lost = False
        self.allocated: dict[int, int] = {}

    def attribute(self, which: int, device: int) -> int:
        return self.attributes[which]

    def error_name(self, status: int) -> str:
        return f"error {status}"

    def function(self, name: str) -> Any:
        return lambda *arguments: self.status(name, *arguments)

    def call(self, name: str, *arguments: Any) -> None:
        if status := self.status(name, *arguments):
            raise sys.modules[f"{NAME}.cuda.driver"].CudaError(name, status, f"CUDA_ERROR_{status}")

    def status(self, name: str, *arguments: Any) -> int:
        handler = getattr(self, f"_{name}", None)
        return 0 if handler is None else int(handler(*arguments) or 0)

    def _cuMemHostAlloc(self, address: Any, size: Any, flags: Any) -> None:
        self.staging = ctypes.create_string_buffer(size.value)
        address._obj.value = ctypes.addressof(self.staging)

    def _cuEventCreate(self, event: Any, flags: Any) -> None:
        event._obj.value = len(self.stamps) + 1
        self.stamps[event._obj.value] = 0.0

    def _cuDeviceGetName(self, text: Any, size: Any, device: Any) -> None:
        text.value = b"Made Up"

    def _cuDriverGetVersion(self, version: Any) -> None:
        version._obj.value = 13000

    def _cuMemGetInfo_v2(self, free: Any, total: Any) -> None:
        free._obj.value = self.free

    def _cuMemAlloc_v2(self, address: Any, size: Any) -> None:
        address._obj.value = (len(self.allocated) + 1) << 40
        self.allocated[address._obj.value] = size.value

    def _cuModuleLoadData(self, module: Any, text: Any) -> int:
        if self.refuse and self.refuse in text.value.decode():
            return 218
        module._obj.value = len(self.texts) + 1
        self.texts[module._obj.value] = text.value.decode()
        return 0

    def _cuModuleGetFunction(self, function: Any, module: Any, name: Any) -> None:
        function._obj.value = module.value

    def _cuLaunchKernel(self, function: Any, blocks: Any, *rest: Any) -> None:
        text, parameters = self.texts[function.value], rest[-2]
        words, rounds = (
            kind.from_address(parameters[index]).value
            for index, kind in ((2, ctypes.c_uint64), (3, ctypes.c_uint32))
        )
        self.lost |= bool(self.fault) and self.fault in text
        taken = max(LAUNCH_S, self._seconds(text, blocks.value * 8, words, rounds))
        if self.captured is not None:
            self.captured.append(taken)
        else:
            self.now += taken

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

    def _cuEventRecord(self, event: Any, stream: Any) -> None:
        self.stamps[event.value] = self.now

    def _cuEventElapsedTime(self, found: Any, begin: Any, end: Any) -> None:
        found._obj.value = (self.stamps[end.value] - self.stamps[begin.value]) * 1e3

    def _cuStreamBeginCapture_v2(self, *arguments: Any) -> None:
        self.captured = []

    def _cuStreamEndCapture(self, *arguments: Any) -> None:
        assert self.captured is not None
        self.graph_s, self.captured = sum(self.captured), None

    def _cuGraphLaunch(self, *arguments: Any) -> None:
        self.now += self.graph_s

    def _cuStreamQuery(self, stream: Any) -> int:
        return 719 if self.lost else 0


def test_what_is_found_is_the_devices_speed(measure: Any) -> None:
    document = measure.Measurement(Device(), 0).run()
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
    document = measure.Measurement(Device(capability=80), 0).run()
    assert document["ceilings"]["tensor_fp16_per_s"] == pytest.approx(SPEED["mma"], rel=1e-3)
    assert "tensor_fp8_per_s" in document["missing"] and "tensor_fp8_per_s" not in document["ceilings"]


def test_kernels_that_the_driver_refuses_are_named(measure: Any) -> None:
    document = measure.Measurement(Device(refuse="wgmma"), 0).run()
    assert document["how"]["tensor_bf16_per_s"] == "mma.sync"
    assert document["missing"]["tensor_bf16_per_s"].startswith("cuModuleLoadData")


def test_after_a_fault_nothing_more_is_measured(measure: Any) -> None:
    document = measure.Measurement(Device(fault="wgmma"), 0).run()
    assert document["ceilings"]["fp32_per_s"] > 0
    assert "tensor_fp16_per_s" not in document["ceilings"]
    assert all("error 719" in document["missing"][f"tensor_{kind}_per_s"] for kind in ("fp16", "fp64"))


def test_a_full_device_has_no_bandwidth_of_memory(measure: Any) -> None:
    document = measure.Measurement(Device(free=100 << 20), 0).run()
    assert "free" in document["missing"]["dram_copy_bytes_per_s"]
    assert document["ceilings"]["l2_bytes_per_s"] > 0
