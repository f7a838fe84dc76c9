"""Where a HIP launch is replayed: on which GPU, emulated or not, and what is said where there is none."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer, schema
from kerncap.format.schema import Manifest
from kerncap.replay import amd_devices
from kerncap.replay.amd_devices import EMULATOR_VARIABLE, Emulator, Probe
from kerncap.replay.choose_engine import choose
from kerncap.replay.worker.common.address_layout import Span
from kerncap.replay.worker.common.host_memory import map_pages
from kerncap.replay.worker.hip.held_addresses import Hold

from . import build, native


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    made = native.add(code={"hsaco": b"\x7fELF"})
    with Reproducer.open(made.seal(tmp_path_factory.mktemp("hip"))) as reproducer:
        found = reproducer.manifest
    return msgspec.structs.replace(
        found,
        kernel=msgspec.structs.replace(found.kernel, language="hip"),
        device=schema.Device(kind="hip", name="AMD Instinct MI300X", arch="gfx942", ordinal=1),
    )


def emulating(folder: Path, agents: list[str], reason: str = "") -> Path:
    """A folder whose `run` stands in for the probe: what it would find is fixed."""
    folder.mkdir(exist_ok=True)
    answer = msgspec.json.encode({"numpy": True, "agents": agents, "reason": reason}).decode()
    (folder / "run").write_text(f"#!/bin/sh\necho '{answer}'\n")
    (folder / "run").chmod(0o755)
    return folder


def test_the_captured_gpu_is_preferred_among_those_that_fit(manifest: Manifest, tmp_path: Path) -> None:
    for agents, number in ((["gfx942"], 0), (["gfx942", "gfx942"], 1), (["gfx90a", "gfx90a", "gfx942"], 2)):
        choice = choose(manifest, emulator=emulating(tmp_path / "e", agents))
        assert (choice.memory, choice.launcher, choice.name, choice.device) == (
            "hip",
            "native",
            "binary",
            number,
        )
    assert choose(manifest, device="hip:0", emulator=emulating(tmp_path / "e", ["gfx942"] * 2)).device == 0


def test_another_architecture_says_what_to_do(manifest: Manifest, tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="is for gfx942 and AMD GPU 0 here is gfx90a.*--emulator"):
        choose(manifest, emulator=emulating(tmp_path / "e", ["gfx90a:sramecc+:xnack-"]))


def test_features_are_no_other_architecture(manifest: Manifest) -> None:
    amd_devices.check_arch(manifest, 0, Probe("python", ("gfx942:sramecc+:xnack-",), ""))


def test_a_gpu_that_is_not_there(manifest: Manifest, tmp_path: Path) -> None:
    folder = emulating(tmp_path / "e", ["gfx942"])
    with pytest.raises(BackendUnavailable, match="AMD GPU 3.*shows 1 of them"):
        choose(manifest, device="hip:3", emulator=folder)
    with pytest.raises(UsageError, match="--device cuda:0: .* needs an AMD GPU"):
        choose(manifest, device="cuda:0", emulator=folder)
    with pytest.raises(BackendUnavailable, match="--device cpu was given"):
        choose(manifest, device="cpu", emulator=folder)
    with pytest.raises(BackendUnavailable, match="ROCm finds no GPU; --emulator FOLDER"):
        choose(manifest, emulator=emulating(tmp_path / "e", [], "ROCm finds no GPU"))


def test_engines_that_are_not_for_code_objects(manifest: Manifest, tmp_path: Path) -> None:
    for engine in ("jit", "interpreter"):
        with pytest.raises(BackendUnavailable, match="is run by its code object, it is not a Triton kernel"):
            choose(manifest, engine=engine, emulator=emulating(tmp_path / "e", ["gfx942"]))


def test_a_reproducer_without_code(manifest: Manifest) -> None:
    with pytest.raises(BackendUnavailable, match="holds no code object"):
        choose(msgspec.structs.replace(manifest, code=()))


def test_no_rocm_here_is_said(manifest: Manifest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A library that can't be loaded is the same as none: the dynamic loader finds this one first."""
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    (tmp_path / "libhsa-runtime64.so.1").write_text("no library")
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match=r"there is no ROCm runtime \(.*libhsa-runtime64.so.1"):
        choose(manifest)


def test_a_rocm_with_no_driver_is_said(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if Path("/dev/kfd").exists():
        pytest.skip("this machine has an AMD GPU")
    source = tmp_path / "hsa.c"
    source.write_text(
        "int hsa_init(void) { return 0x1000; }\n"
        'int hsa_status_string(int s, const char** t) { *t = "it failed"; return s & 0; }\n'
    )
    subprocess.run(
        ["cc", "-shared", "-fPIC", str(source), "-o", str(tmp_path / "libhsa-runtime64.so.1")], check=True
    )
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    with pytest.raises(BackendUnavailable, match="there is no /dev/kfd: no amdgpu driver"):
        choose(manifest)


def test_a_triton_kernel_of_an_amd_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its code object runs where there is such a GPU; its source is interpreted where there is none."""
    monkeypatch.delenv(EMULATOR_VARIABLE, raising=False)
    made = build.add()
    made.mode = "jit"
    with Reproducer.open(made.seal(tmp_path)) as reproducer:
        found = reproducer.manifest
    file = schema.StoredFile(path="code/add.hsaco", size=4, sha256="0" * 64)
    triton = msgspec.structs.replace(
        found,
        device=schema.Device(kind="hip", name="AMD Instinct MI300X", arch="gfx942"),
        code=(schema.CodeFile(stage="hsaco", file=file),),
    )
    choice = choose(triton, emulator=emulating(tmp_path / "e", ["gfx942"]))
    assert (choice.memory, choice.launcher, choice.on_device) == ("hip", "native", False)
    choice = choose(triton, engine="jit", emulator=emulating(tmp_path / "e", ["gfx942"]))
    assert (choice.memory, choice.launcher, choice.name, choice.source) == ("hip", "native", "jit", True)
    for options in ({"engine": "interpreter"}, {"device": "cpu"}):
        choice = choose(triton, **options, emulator=emulating(tmp_path / "e", ["gfx942"]))
        assert (choice.memory, choice.launcher) == ("host", "interpreter")
    if not Path("/dev/kfd").exists():
        assert choose(triton).launcher == "interpreter"
        with pytest.raises(BackendUnavailable, match="a code object needs an AMD GPU"):
            choose(triton, engine="binary")


# --- the emulator ----------------------------------------------------------------------------------------


def test_the_environment_names_an_emulator_too(
    manifest: Manifest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = emulating(tmp_path / "e", ["gfx942"])
    monkeypatch.setenv(EMULATOR_VARIABLE, str(folder))
    choice = choose(manifest)
    assert choice.emulator == Emulator(folder, "gfx942") and choice.prefix == (str(folder / "run"),)
    with pytest.raises(BackendUnavailable, match=r"--emulator .*none: it holds no executable `run`"):
        choose(manifest, emulator=tmp_path / "none")
    monkeypatch.setenv(EMULATOR_VARIABLE, str(tmp_path))
    with pytest.raises(BackendUnavailable, match=f"{EMULATOR_VARIABLE} .*holds no executable `run`"):
        choose(manifest)


def test_an_emulator_is_for_launches_of_amd_gpus(tmp_path: Path) -> None:
    with (
        Reproducer.open(native.add().seal(tmp_path)) as reproducer,
        pytest.raises(UsageError, match="--emulator stands in for an AMD GPU.*ran on cuda"),
    ):
        choose(reproducer.manifest, emulator=emulating(tmp_path / "e", ["gfx942"]))


def test_an_emulator_that_fails_is_quoted(manifest: Manifest, tmp_path: Path) -> None:
    folder = emulating(tmp_path / "e", [])
    (folder / "run").write_text("#!/bin/sh\necho 'no loader here' >&2\nexit 3\n")
    with pytest.raises(BackendUnavailable, match="emulated AMD GPU .*no loader here"):
        choose(manifest, emulator=folder)


def test_what_a_worker_is_started_with() -> None:
    before = {
        "HSA_TOOLS_LIB": "/x/libkerncap_hip.so other.so", "PATH": "/bin", "HSA_XNACK": "1",
        "LD_PRELOAD": "/x/libkerncap_hip.so:/y/libasan.so /x/libkerncap_cuda.so",
    }  # fmt: skip
    assert amd_devices.environment(before, Emulator(Path("/e"), "gfx90a")) == {
        "PATH": "/bin", "HSA_XNACK": "1", "LD_PRELOAD": "/y/libasan.so", "AMD_GPU_GFX": "gfx90a"
    }  # fmt: skip
    assert amd_devices.environment({"LD_PRELOAD": "/x/libkerncap_hip.so"}, None) == {}


# --- addresses -------------------------------------------------------------------------------------------


def test_what_is_held_can_be_taken_by_nothing_else() -> None:
    page = os.sysconf("SC_PAGE_SIZE")
    first, second = Span(0x5E00_0000_0000, 0x5E00_0000_0000 + page), Span(0x5E10_0000_0000, 0x5E10_0001_0000)
    hold = Hold([first, second])
    assert map_pages(first.start, page, fixed=True) is None
    hold.release(first)
    assert map_pages(first.start, page, fixed=True) == first.start
    assert map_pages(second.start, page, fixed=True) is None
    again = Hold([first])  # taken: nothing is held, and releasing must not take it away
    again.release()
    assert ctypes.string_at(first.start, 4) == bytes(4)
    hold.release()
    assert map_pages(second.start, page, fixed=True) == second.start


def test_the_probe_runs_in_a_python_of_the_users(tmp_path: Path, manifest: Manifest) -> None:
    with pytest.raises(BackendUnavailable, match=r"the Python .*nowhere"):
        amd_devices.probe(str(tmp_path / "nowhere"), None)
    assert amd_devices.probe(sys.executable, None).python == sys.executable
