"""Triton launches that the driver launches, in a worker without torch, on the stand-in driver.

A kernel there is a host function of its compiled name: that name decides what a candidate's code does.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from kerncap.api.verify import VerifyOptions, verify
from kerncap.api.verify.verify_result import VerifyResult
from kerncap.errors import ReplayError
from kerncap.format import Reproducer, schema
from kerncap.replay.choose_engine import Choice, without_torch
from kerncap.replay.connection import Connection
from kerncap.replay.engine import ORIGINAL, Engine
from kerncap.replay.pool import Pool
from kerncap.replay.worker.protocol import TritonImage

from . import build, native

pytestmark = pytest.mark.usefixtures("stand_in")


def launch(**changed: Any) -> build.Launch:
    """A compiled ``out = x + y`` in the memory of the stand-in driver."""
    made = build.add()
    made.mode, made.device_name = "jit", native.DEVICE_NAME
    made.regions = [
        (native.BASE + i * native.SPACING, pre, post) for i, (_, pre, post) in enumerate(made.regions)
    ]
    for name, value in changed.items():
        setattr(made, name, value)
    return made


def candidate(folder: Path, kernel: str = "add", text: str = build.ADD) -> Path:
    """A file whose kernel is compiled under another name, which the stand-in driver runs."""
    file = folder / "candidate.py"
    file.write_text(build.HEADER + text.replace("@triton.jit", f"@triton.jit(repr=lambda _: {kernel!r})"))
    return file


def judged(path: Path, **options: Any) -> VerifyResult:
    return verify(path, VerifyOptions(**{"timeout_s": 20.0, **options}))


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The launchers of the workers that are started; with torch there is no device here."""
    found: list[str] = []
    start = Connection.start

    def noted(self: Connection) -> None:
        found.append(self.choice.launcher)
        if self.choice.launcher != "native":
            raise ReplayError("the replay worker did not start")
        start(self)

    monkeypatch.setattr(Connection, "start", noted)
    return found


def test_a_launch_is_judged(tmp_path: Path) -> None:
    result = judged(launch().seal(tmp_path))
    assert result.verdict.line == "Result: PASS (12,000 bytes identical, 4,000 written bytes poisoned)"
    assert (result.engine, result.driver) == ("jit", "") and result.triton


@pytest.mark.parametrize(("kernel", "passes"), [("add", True), ("off_by_one", False)])
@pytest.mark.usefixtures("own_nurseries")
def test_a_candidate_is_judged_without_torch(tmp_path: Path, kernel: str, passes: bool) -> None:
    path = launch().seal(tmp_path)
    with Pool(keep=1) as pool:
        result = verify(path, VerifyOptions(candidate=candidate(tmp_path, kernel)), pool)
        assert result.passed == passes, result.verdict.reasons
        assert passes or "out_ptr" in result.verdict.reasons[0]
        [(_, engine)] = pool._kept.values()  # so that no Python of the candidate ran where it was judged
        assert engine.connection._worker is not None
        pids = [engine.connection._worker._process.pid, *(each.pid for each in pool._nurseries.values())]
        assert {each.kind for each in pool._nurseries} == {"cuda", "compiler"}
        for pid in pids:
            assert "libtorch" not in Path(f"/proc/{pid}/maps").read_text()


def test_no_compiler_imports_torch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, started: list[str]
) -> None:
    (tmp_path / "torch.py").write_text("raise SystemExit('torch is imported')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    result = judged(launch().seal(tmp_path / "repro"), candidate=candidate(tmp_path))
    assert result.passed, result.verdict.reasons
    assert started == ["native"]


def test_what_the_launch_passes(tmp_path: Path) -> None:
    expected = np.array([8, 1, 1, 256, 1, 1, 2, 1, 1, 0, 6], dtype=np.float32)
    text = build.ADD.replace("@triton.jit", "@triton.jit(repr=lambda _: 'launched')")
    made = build.Launch(text, "add", grid=(4, 1, 1), mode="jit", device_name=native.DEVICE_NAME)
    made.options = {"num_warps": 8, "num_ctas": 2}
    out = np.zeros(11, dtype=np.float32)
    x, where = np.ones(11, dtype=np.float32), native.BASE
    made.tensor("x_ptr", x, base=where).tensor("y_ptr", x, base=where + native.SPACING)
    made.tensor("out_ptr", out, expected, base=where + 2 * native.SPACING)
    path = made.argument("n", 11).constexpr("BLOCK", 256).seal(tmp_path)
    assert judged(path).passed, judged(path).verdict.reasons  # two pointers to scratch follow the arguments


def test_a_captured_image_is_launched_as_it_is(tmp_path: Path, started: list[str]) -> None:
    with Reproducer.open(launch().seal(tmp_path / "source")) as one, Engine(one, torch_free=True) as engine:
        image, said = engine.loadable(ORIGINAL)
        data = image.read_bytes()
    assert isinstance(said, TritonImage) and said.stage == "cubin"
    made = launch(code={"cubin": data}, options={"num_warps": said.metadata["num_warps"]})
    for argument, kind in zip(made.arguments, said.signature.values(), strict=True):
        made.arguments[made.arguments.index(argument)] = msgspec.structs.replace(argument, signature=kind)
    result = judged(made.seal(tmp_path / "image"), engine="binary")
    assert result.passed and (result.engine, result.driver) == ("binary", "13.0")
    assert started == ["native", "native"]


def test_a_syntax_error_needs_no_torch(tmp_path: Path, started: list[str]) -> None:
    file = candidate(tmp_path, text=build.ADD.replace("tl.load(y_ptr", "tl.nothing(y_ptr"))
    result = judged(launch().seal(tmp_path), candidate=file)
    assert "candidate.py does not compile: " in result.verdict.reasons[0], result.verdict.reasons
    assert started == ["native"]


@pytest.mark.parametrize("line", ["open('/etc/hostname')", "import no_such_module"])
def test_a_candidate_that_may_need_more_gets_torch(tmp_path: Path, started: list[str], line: str) -> None:
    file = candidate(tmp_path, text=build.ADD + f"\n{line}\n")
    with pytest.raises(ReplayError, match="did not start"):
        judged(launch().seal(tmp_path), candidate=file)
    assert started == ["native", "jit"]


def test_a_source_that_may_need_more_gets_torch(tmp_path: Path, started: list[str]) -> None:
    with pytest.raises(ReplayError, match="did not start"):
        judged(launch(source=build.ADD + "\nopen('/etc/hostname')\n").seal(tmp_path))
    assert started[0] == "native" and "jit" in started


@pytest.mark.parametrize(
    "options",
    [{"hostile": True}, {"stages": ("oracle", "numerics")}, {"stages": ("shapes",)}, {"stages": ("timing",)},
     {"reference": Path("reference.py")}, {"candidate": Path("edited.ttir")}],
)  # fmt: skip
def test_what_needs_torch_is_not_tried_without(options: dict[str, Any]) -> None:
    assert not VerifyOptions(**options).torch_free
    assert VerifyOptions(candidate=Path("edited.py"), stages=("oracle", "determinism")).torch_free


def test_which_launches_need_torch(tmp_path: Path) -> None:
    jit = Choice("python", "jit", "cuda", 1)
    with Reproducer.open(launch().seal(tmp_path / "one")) as reproducer:
        manifest = reproducer.manifest
    assert without_torch(jit, manifest) == Choice("python", "native", "cuda", 1, source=True, torch_free=True)
    for other in (replace(jit, hostile=True), replace(jit, stranger=True), replace(jit, memory="host")):
        assert without_torch(other, manifest) is None
    for changed in ({"oracle": schema.Oracle(kind="fault")}, {"mode": "interpreter"}):
        with Reproducer.open(launch(**changed).seal(tmp_path / next(iter(changed)))) as reproducer:
            assert without_torch(jit, reproducer.manifest) is None
