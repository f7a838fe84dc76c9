"""Captures of Triton, CUDA and HIP programs onto disks of every small size, and under small limits on files.

Whatever becomes of the capture, the program's status and output are those of a run without kerncap.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import kerncap as package
from kerncap import env
from tests.native.building import ROOT, build, stand_in
from tests.rigs import amd_gpu

from .conftest import Mount
from .targets import Ended, Target, captured, check, plain

SIZES = [*range(4, 257, 4)]  # KiB
HIP_PROGRAMS = ROOT / "tests" / "integration" / "hip" / "programs"

TRITON = """
import signal
import torch, triton, triton.language as tl
signal.signal(signal.SIGXFSZ, signal.SIG_DFL)

@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)

n = 6000
x, y, out = torch.arange(n, dtype=torch.float32), torch.ones(n), torch.zeros(n)
for _ in range(3):
    add[(-(-n // 1024),)](x, y, out, n, BLOCK=1024)
print(out.sum().item(), signal.getsignal(signal.SIGXFSZ) == signal.SIG_DFL)
"""


@pytest.fixture(scope="session")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Target:
    pytest.importorskip("triton")
    program = tmp_path_factory.mktemp("triton") / "target.py"
    program.write_text(TRITON)
    return Target(
        "triton", (sys.executable, str(program)), {"TRITON_INTERPRET": "1"}, ("--backend", "triton")
    )


def _shims() -> None:
    if Path(package.__file__).resolve().parent == ROOT / "kerncap":
        build(ROOT / "shims", ROOT / "build" / "shims")


@pytest.fixture(scope="session")
def cuda() -> Target:
    _shims()
    assert env.cuda_shim() is not None, "this installation of kerncap has no CUDA shim"
    rig = stand_in()
    environment = {
        "LD_LIBRARY_PATH": str(rig),
        "KERNCAP_RIG_KERNELS": str(rig / "clients" / "librig_test_kernels.so"),
        "KERNCAP_RIG_SEED": "1",  # else addresses differ from run to run
    }
    return Target(
        "cuda", (str(rig / "clients" / "vector_add"), "6000", "3"), environment,
        ("-k", "vector_add", "--backend", "cuda"),
    )  # fmt: skip


@pytest.fixture(scope="session")
def hip(tmp_path_factory: pytest.TempPathFactory) -> Target:
    rig = amd_gpu.find()
    if isinstance(rig, str):
        pytest.skip(rig)
    _shims()
    if env.hip_shim() is None:
        pytest.skip("this installation of kerncap has no HIP shim (make shims)")
    program = rig.build(HIP_PROGRAMS / "launches.hip", tmp_path_factory.mktemp("hip") / "launches", "gfx90a")
    return Target(
        "hip",
        (*rig.run_prefix, str(program)),
        rig.environment(),
        ("-k", ".", "--launch", "0", "--backend", "hip"),
    )


@pytest.fixture(scope="session")
def plain_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Ended]:
    """``plain_of(target, file_bytes)``: how it ends without kerncap; run once."""
    known: dict[tuple[str, int | None], Ended] = {}

    def of(target: Target, file_bytes: int | None = None) -> Ended:
        key = (target.name, file_bytes)
        if key not in known:
            known[key] = plain(target, tmp_path_factory.mktemp("plain") / "kept", file_bytes)
        return known[key]

    return of


def cases(*few: tuple[str, int]) -> pytest.MarkDecorator:
    """Every kind of target and every size; `make test` takes these few."""
    every = [(name, size) for name in ("triton", "cuda", "hip") for size in SIZES]
    params = [pytest.param(*case, marks=() if case in few else pytest.mark.long) for case in every]
    return pytest.mark.parametrize(("name", "kib"), params)


@cases(("cuda", 132))
def test_a_disk_of_this_size(
    request: pytest.FixtureRequest,
    plain_of: Callable[..., Ended],
    mount: Mount,
    tmp_path: Path,
    name: str,
    kib: int,
) -> None:
    target: Target = request.getfixturevalue(name)
    disk = mount(tmp_path / "disk", kib)
    run = captured(target, disk, tmp_path / "kept")
    print(check(run, plain_of(target), disk))


@cases(("cuda", 28))
def test_a_limit_on_files_of_this_size(
    request: pytest.FixtureRequest, plain_of: Callable[..., Ended], tmp_path: Path, name: str, kib: int
) -> None:
    """The emulated AMD GPU makes larger files itself: a program on it ends by SIGXFSZ, as without kerncap."""
    target: Target = request.getfixturevalue(name)
    (tmp_path / "out").mkdir()
    run = captured(target, tmp_path / "out", tmp_path / "kept", file_bytes=kib * 1024)
    print(check(run, plain_of(target, kib * 1024), tmp_path / "out"))
