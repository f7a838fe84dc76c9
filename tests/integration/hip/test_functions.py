"""Function pointers and virtual functions: words of memory that are addresses of the application's code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from kerncap.format.schema import Manifest
from kerncap.replay.amd_devices import EMULATOR_VARIABLE
from tests.golden.contents import write_again
from tests.integration.conftest import CommandLine
from tests.rigs import amd_gpu

from . import replay_launches
from .conftest import PROGRAMS, Bench, Programs

HEADER = PROGRAMS / "functions_kernels.h"
NAMES = ("by_table", "make", "by_memory", "by_argument", "areas", "walk")

MOVED = [  # other code in front, and a virtual function more
    ("__device__ __attribute__((noinline)) float add", """
__device__ __attribute__((noinline)) float other(float a, float b) {
  return a / b - 1;
}
__device__ Op others[1] = {other};
extern "C" __global__ void by_others(float* x) {
  x[threadIdx.x] = others[0](x[0], x[1]) * 2;
}
__device__ __attribute__((noinline)) float add"""),
    ("struct Shape {", "struct Shape {\n  __device__ virtual float first(float x) const { return x / 3; }"),
]  # fmt: skip
WRONG = [("return a + b;", "return a + b + 1;"), ("side + x;", "side - x;")]
RENAMED = [("times", "product")]
# By edit and kernel, the result and what its reason has.
EXPECTED = {
    "unedited": {"by_memory": ("pass", ""), "areas": ("pass", "")},
    "moved": dict.fromkeys(NAMES, ("pass", "")),
    "wrong": {"make": ("pass", ""), "by_memory": ("fail", "differ"), "areas": ("fail", "differ")},
    "renamed": {
        "by_argument": ("undecided", "memory has pointers to times of the captured code"),
        "areas": ("pass", ""),
    },
}
EDITS = {"unedited": [], "moved": MOVED, "wrong": WRONG, "renamed": RENAMED}


@dataclass(frozen=True)
class Captured:
    """The program's launches, captured on a GPU of ``arch``."""

    bench: Bench
    arch: str
    paths: dict[str, Path]


def edited(edits: Sequence[tuple[str, str]]) -> str:
    text = HEADER.read_text()
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    return text


def capture(bench: Bench, arch: str, *program: str | Path) -> Captured:
    options = ("-o", f"out-{arch}", "-k", ".", "--launch", "0")
    run = bench.capture(*options, program=program, expect=len(NAMES), extra={"AMD_GPU_GFX": arch})
    return Captured(bench, arch, {m.kernel.name: path for path, m in run.manifests().items()})


@pytest.fixture(scope="module")
def compiled(shared_bench: Bench, programs: Programs) -> Captured:
    """With what hipcc made."""
    return capture(shared_bench, replay_launches.ARCH, programs("functions"))


@pytest.fixture(scope="module", params=["gfx942", "gfx950"])
def loaded(
    request: pytest.FixtureRequest, shim: Path, programs: Programs, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Captured]:
    """With what a newer compiler made: HIP 6 does not know gfx950."""
    rig = amd_gpu.find(7 if request.param == "gfx950" else 6)
    if isinstance(rig, str):
        pytest.skip(rig)
    assert shim.is_file()
    folder = tmp_path_factory.mktemp(request.param)
    code = folder / "code.co"
    code.write_bytes(replay_launches.by_hiprtc(HEADER.read_text(), request.param, rig.folder, folder))
    yield capture(Bench(CommandLine(folder), rig), request.param, programs("functions"), code)


@pytest.mark.parametrize("name", NAMES)
def test_a_replay_calls_the_same_functions(compiled: Captured, name: str) -> None:
    document = compiled.bench.judge(compiled.paths[name])
    assert document["result"] == "pass", document


FAST = [("moved", "by_memory"), ("moved", "areas"), ("wrong", "areas"), ("renamed", "by_argument")]
LONG = [(edit, name) for edit in EDITS for name in EXPECTED[edit] if (edit, name) not in FAST]


@pytest.mark.parametrize(
    ("edit", "name"), [*FAST, *(pytest.param(*each, marks=pytest.mark.long) for each in LONG)]
)
def test_an_edited_source_has_its_own_functions(
    compiled: Captured, tmp_path: Path, edit: str, name: str
) -> None:
    candidate = tmp_path / HEADER.name
    candidate.write_text(edited(EDITS[edit]))
    document = compiled.bench.judge(compiled.paths[name], "--candidate", candidate)
    result, why = EXPECTED[edit][name]
    assert document["result"] == result and why in " ".join(document["reasons"]), document


@pytest.mark.long
def test_a_newer_compilers_code(loaded: Captured, tmp_path: Path) -> None:
    for name in NAMES:
        document = loaded.bench.judge(loaded.paths[name])
        assert document["result"] == "pass", (name, document)
    for edit in ("moved", "wrong", "renamed"):
        candidate = tmp_path / f"{edit}.hsaco"
        text = edited(EDITS[edit])
        folder = Path(loaded.bench.rig.folder)
        candidate.write_bytes(replay_launches.by_hiprtc(text, loaded.arch, folder, tmp_path))
        for name, (result, why) in EXPECTED[edit].items():
            document = loaded.bench.judge(loaded.paths[name], "--candidate", candidate)
            assert document["result"] == result and why in " ".join(document["reasons"]), (
                edit,
                name,
                document,
            )


def older(manifest: Manifest) -> Manifest:
    """As before format 1.16: it does not say where the code was."""
    dispatch = manifest.launch.dispatch
    assert dispatch is not None and dispatch.kernel_object
    without = replace(dispatch, kernel_object=None)
    return replace(manifest, launch=replace(manifest.launch, dispatch=without))


def test_a_place_that_nothing_tells(shared_bench: Bench, programs: Programs, tmp_path: Path) -> None:
    """The launch stores addresses of functions, and in the older reproducer they can't be compared."""
    run = shared_bench.capture("-k", "store", program=(programs("addresses"),))
    [captured] = run.paths
    assert shared_bench.judge(captured)["result"] == "pass"
    document = shared_bench.judge(write_again(captured, tmp_path, older), "--trust")
    assert document["result"] == "undecided", document
    assert "this reproducer does not say where that was" in " ".join(document["reasons"]), document


@pytest.mark.parametrize(("name", "what"), [("by_memory", "add"), ("by_table", "Square::area")])
def test_an_export_names_what_it_can_not_call(
    compiled: Captured, tmp_path: Path, name: str, what: str
) -> None:
    done = compiled.bench.kerncap("export", compiled.paths[name], "--as", "cmake", "-o", tmp_path / "project")
    assert done.status == 2 and f"has the address of {what}" in done.stderr, done.stderr
    assert not (tmp_path / "project").exists()


def test_a_place_that_only_a_variable_tells(compiled: Captured, tmp_path: Path) -> None:
    path = write_again(compiled.paths["areas"], tmp_path, older)
    assert compiled.bench.judge(path, "--trust")["result"] == "pass"


def test_many_launches_in_a_row(compiled: Captured) -> None:
    """Each has the pointers of here, and leaves those of the capture."""
    folder = str(compiled.bench.rig.folder)
    done = compiled.bench("replay", compiled.paths["walk"], "-n", "5", extra={EMULATOR_VARIABLE: folder})
    assert done.status == 0 and "Result: PASS" in done.stdout, done.stdout + done.stderr
