"""Next steps that can be typed on this machine."""

from __future__ import annotations

import pytest

from kerncap.api.doctor import install_commands as doctor_machine
from kerncap.api.doctor import vendors as doctor_vendors
from kerncap.api.doctor.install_commands import Machine
from kerncap.api.doctor.vendors import AMD, NVIDIA
from tests.unit.doctor.machines import MACHINE


def test_one_shape_for_both_vendors() -> None:
    """The same answers of the probes give the same kinds of checks; only the words are the vendor's."""
    torch = {"version": "2.9", "cuda": None, "hip": None, "devices": []}
    for vendor in (NVIDIA, AMD):
        seen = doctor_vendors.torch_sees_a_gpu(
            vendor, {"torch": {**torch, vendor.build: "1", "devices": [1]}}
        )
        assert seen.status == "ok"
        other = doctor_vendors.torch_sees_a_gpu(vendor, {"torch": torch})
        assert other.detail.endswith("CPU build") and vendor.build_name in (other.next_step or "")
        good = doctor_vendors.library_check(vendor, {"version": "1", "devices": ["x", "x"]}, MACHINE)
        assert (good.name, good.detail) == (vendor.library, "1, 2 x x")
        elsewhere = Machine("apt-get", None, frozenset(), uv=False)
        none = doctor_vendors.library_check(vendor, {"error": "no", "stage": "load"}, elsewhere)
        assert "on this machine's bus" in (none.next_step or "")


@pytest.mark.parametrize(
    ("machine", "has_pip", "expected"),
    [
        (MACHINE, True, "/v/bin/python -m pip install torch"),
        (Machine(None, None, None, uv=True), False, "uv pip install --python /v/bin/python torch"),
        (Machine(None, None, None, uv=False), False, "/v/bin/python -m pip install torch"),
    ],
)
def test_pip_or_uv(machine: Machine, has_pip: bool, expected: str) -> None:
    assert machine.pip("/v/bin/python", has_pip, "torch") == expected


@pytest.mark.parametrize("manager", [*doctor_machine._INSTALL, None])
def test_a_package_managers_own_words(manager: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_machine.os, "geteuid", lambda: 1000)
    command = Machine(manager, None, None, uv=False).install("compiler", "install a C++ compiler")
    assert command.startswith(f"sudo {manager}") if manager else command == "install a C++ compiler"


def test_a_container_is_started_otherwise() -> None:
    inside = Machine("apt-get", "docker", None, uv=False)
    steps = [vendor.steps(inside)[stage] for vendor, stage in ((NVIDIA, "load"), (AMD, "device"))]
    assert "--gpus all" in steps[0] and "--device /dev/kfd --device /dev/dri" in steps[1]
