"""Reproducers that hold no TTIR: captured under Triton's interpreter, compiled from their own source."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap import env
from kerncap.api.compiled_ttir import DoesNotCompile, Instead, compile_source
from kerncap.api.sanitize import sanitize_reproducer, sanitize_ttir
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer
from kerncap.format.schema import Argument, OpaqueValue, Value
from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.options import Options
from kerncap.sanitizer.ttir import read_module

SAMPLE = Path(__file__).parents[3] / "samples" / "out_of_bounds" / "run.py"

# Every kind of argument; the module says on import what it must not see.
MODULE = """
import os
import triton
import triton.language as tl
assert "TRITON_INTERPRET" not in os.environ
os.environ["TRITON_INTERPRET"] = "1"  # as programs do that are to run anywhere

@triton.jit
def double(x):
    return x * 2.0

@triton.jit
def kernel(x_ptr, pair, half, count, one, big, scale, flag, nothing, out_ptr, N: tl.constexpr,
           F: tl.constexpr, TYPE: tl.constexpr, apply: tl.constexpr, SOME: tl.constexpr):
    i = tl.arange(0, N)
    x = tl.load(x_ptr + i, mask=i < count, other=F)
    y = tl.load(pair[0] + i) + tl.load(half + i).to(tl.float32)
    if nothing is None:
        y = apply(y)
    z = (x + y) * scale + SOME[0] + one + pair[1]
    if flag:
        z += big.to(tl.float32)
    tl.store(out_ptr + i, z.to(TYPE))

@triton.autotune(configs=[triton.Config({})], key=[])
@triton.jit
def described(d, o_ptr):
    tl.store(o_ptr + tl.arange(0, 16)[:, None] * 32 + tl.arange(0, 32)[None, :], d.load([0, 0]))

@triton.jit
def broken(x_ptr):
    tl.store(x_ptr, tl.load(x_ptr).no_such_thing)

del os.environ["TRITON_INTERPRET"]
"""
VIEW = {"dtype": "float32", "itemsize": 4, "shape": [64], "strides": [1], "region_bytes": 256}
VIEWS = [
    {**VIEW, "address": 4096},
    {**VIEW, "address": 8192 + 4, "dtype": "float16", "itemsize": 2},
    {**VIEW, "address": 1 << 20, "shape": [16, 32], "strides": [32, 1], "region_bytes": 2048},
]


def tensor(view: int, **more: Any) -> dict[str, Any]:
    return {"kind": "tensor", "view": view, **more}


ARGUMENTS = {
    "x_ptr": tensor(0),
    "pair": {"kind": "sequence", "items": [tensor(0), {"kind": "int", "value": "7"}], "type": "tuple"},
    "half": tensor(1, wrapped_dtype="bfloat16"),
    "count": {"kind": "int", "value": "48"},
    "one": {"kind": "int", "value": "1"},
    "big": {"kind": "int", "value": str(1 << 40)},
    "scale": {"kind": "float", "value": "0x1.8000000000000p+0"},
    "flag": {"kind": "bool", "value": True},
    "nothing": {"kind": "none"},
    "out_ptr": {"kind": "pointer", "address": 1 << 21, "dtype": "torch.float16"},
    "N": {"kind": "int", "value": "64"},
    "F": {"kind": "float", "value": "-inf"},
    "TYPE": {"kind": "dtype", "name": "float16", "library": "triton"},
    "apply": {"kind": "function", "name": "double"},
    "SOME": {"kind": "sequence", "items": [{"kind": "float", "value": "0x1.0p-1"}], "type": "list"},
}
DESCRIBED = {
    "d": {"kind": "descriptor", "view": 2, "shape": [16, 32], "strides": [32, 1], "block_shape": [16, 32]},
    "o_ptr": tensor(2),
}
CUDA: dict[str, Any] = {"entry": "kernel", "arguments": ARGUMENTS, "target": "cuda:90"}
JOBS: dict[str, dict[str, Any]] = {
    "kernel": CUDA,
    "amd": {**CUDA, "target": "hip:gfx942"},
    "options": {**CUDA, "options": {"num_warps": {"kind": "int", "value": "8"}, "maxnreg": {"kind": "none"}}},
    "descriptor": {**CUDA, "entry": "described", "arguments": DESCRIBED},
    "broken": {**CUDA, "entry": "broken", "arguments": {"x_ptr": tensor(0)}},
    "no entry": {**CUDA, "entry": "nobody"},
    "no function": {**CUDA, "arguments": {**ARGUMENTS, "apply": {"kind": "function", "name": "gone"}}},
    "opaque": {
        **CUDA,
        "arguments": {**ARGUMENTS, "one": {"kind": "opaque", "type_name": "a.B", "repr": "?"}},
    },
    "target": {**CUDA, "target": "metal:1"},
}
_CHILD = """
import sys
sys.path.insert(0, sys.argv[1])
from kerncap_triton.sanitize import from_source
for job in sys.argv[2:]:
    from_source.main(job)
    # It takes seconds. Triton's backend for AMD, which the second job takes, imports it.
    assert "torch" not in sys.modules or job != sys.argv[2]
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """What one child says to all jobs."""
    folder = tmp_path_factory.mktemp("jobs")
    (folder / "kernel.py").write_text(MODULE)
    paths = []
    for number, job in enumerate(JOBS.values()):
        arguments = [{"name": name, "value": value} for name, value in job["arguments"].items()]
        whole = {"module": str(folder / "kernel.py"), "views": VIEWS, "options": {}, **job}
        whole |= {"arguments": arguments, "result": str(folder / f"{number}.out")}
        paths.append(folder / f"{number}.json")
        paths[-1].write_text(json.dumps(whole))
    subprocess.run(
        [sys.executable, "-c", _CHILD, env.triton_hook_folder(), *paths],
        check=True, capture_output=True, timeout=300, env={**os.environ, "TRITON_INTERPRET": "1"},
    )  # fmt: skip
    return {name: json.loads((folder / f"{number}.out").read_text()) for number, name in enumerate(JOBS)}


def parameters(ttir: str) -> dict[str, str]:
    (line,) = [line for line in ttir.splitlines() if "tt.func public" in line]
    found = {}
    for part in line.split("%")[1:]:
        name, _, kind = part.partition(": ")
        found[name] = kind.split(" ", 1)[0].rstrip(",)")
    return found


def test_arguments_of_every_kind(answers: Mapping[str, Mapping[str, str]]) -> None:
    ttir = answers["kernel"]["ttir"]
    found = parameters(ttir)
    assert list(found.values()) == [
        "!tt.ptr<f32>", "!tt.ptr<f32>", "i32", "!tt.ptr<bf16>", "i32", "i64", "f32", "i1", "!tt.ptr<f16>",
    ]  # fmt: skip
    assert [name for name in found if "pair" in name] and "one" not in found and "nothing" not in found
    text = ttir.split("tt.func public", 1)[1]
    x, half = (text.split(f"%{name}: ", 1)[1].split("%", 1)[0] for name in ("x_ptr", "half"))
    assert "tt.divisibility = 16" in x and "tt.divisibility" not in half  # by the captured address
    assert "0xFF800000" in ttir and "tensor<64xf16>" in ttir  # -inf, the dtype
    assert "tt.func" not in text  # the function that was passed was inlined


def test_targets_options_and_descriptors(answers: Mapping[str, Mapping[str, str]]) -> None:
    assert parameters(answers["amd"]["ttir"]).keys() == parameters(answers["kernel"]["ttir"]).keys()
    assert answers["options"]["ttir"] == answers["kernel"]["ttir"]
    assert "tt.descriptor_load" in answers["descriptor"]["ttir"]
    for name in ("kernel", "amd", "descriptor"):
        assert read_module(answers[name]["ttir"]).kernel.name in ("kernel", "described")


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        ("broken", "broken does not compile for cuda:90: "),
        ("no entry", "the source module has no @triton.jit function nobody"),
        ("no function", "argument apply: the source module has no function gone"),
        ("opaque", "argument one is a a.B, which a reproducer can't rebuild"),
        ("target", "'metal:1' is not a target; expected one such as cuda:90 or hip:gfx942"),
    ],
)
def test_what_can_not_be_compiled(answers: Mapping[str, Mapping[str, str]], job: str, reason: str) -> None:
    [(kind, said)] = answers[job].items()
    assert kind == ("error" if job == "broken" else "refused")
    assert said.startswith(reason) and "\n" not in said


# --- from a program to a finding, without a GPU -----------------------------------------------------------


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The sample's launch, captured under the interpreter, and the configuration that trusts it."""
    folder = tmp_path_factory.mktemp("captured")
    environment = {**os.environ, "TRITON_INTERPRET": "1", "XDG_CONFIG_HOME": str(folder / "config")}
    command = [sys.executable, "-m", "kerncap", "capture", "-k", "square_kernel", "-o", str(folder / "out")]
    subprocess.run(
        [*command, "--no-self-check", "--", sys.executable, str(SAMPLE)],
        check=True, capture_output=True, timeout=300, env=environment,
    )  # fmt: skip
    (reproducer,) = (folder / "out").iterdir()
    return reproducer, folder / "config"


@pytest.fixture(scope="module")
def judged(captured: tuple[Path, Path]) -> LaunchReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(captured[1]))
        patch.setenv("TRITON_INTERPRET", "1")  # of the shell that captured: it must not reach the compiler
        (report,) = sanitize_reproducer(captured[0], Options(bounds="view"))
    return report


def test_the_missing_mask_is_found_at_its_line(judged: LaunchReport) -> None:
    (finding,) = judged.findings
    (number,) = (
        n for n, text in enumerate(SAMPLE.read_text().splitlines(), 1) if "the mask is missing" in text
    )
    frame = finding.location.frames[0]
    assert (frame.file, frame.line, finding.check) == (str(SAMPLE), number, "oob")
    assert (finding.argument, finding.suggestion) == ("scores_ptr", "mask=offsets < n")
    assert (finding.place.program_id, finding.place.lane, finding.place.element) == ((3, 0, 0), (232,), 1000)
    assert finding.message.startswith(
        "store of 4 bytes at scores_ptr + 1000 (byte 4,000): just past the end of the view scores_ptr"
    )
    assert judged.sources[str(SAMPLE)].splitlines()[number - 1].strip().startswith("tl.store(")
    assert judged.notes[0] == "compiled from the reproducer's source for cuda:90"
    assert judged.python_stack[-1][2] == "main"


def test_within_its_storage_the_store_is_no_finding(
    captured: tuple[Path, Path], judged: LaunchReport, tmp_path: Path
) -> None:
    """Asked of the compiled text, with the sample's memory."""
    ttir = tmp_path / "square.ttir"
    ttir.write_text(judged_ttir(captured))
    said = {"x_ptr": "f32[1000]", "scores_ptr": "f32[1000]@storage(1024)", "n": "1000"}
    (report,) = sanitize_ttir(ttir, (4,), said)
    assert not report.findings
    (report,) = sanitize_ttir(ttir, (4,), said, Options(bounds="view"))
    assert [finding.argument for finding in report.findings] == ["scores_ptr"]


def judged_ttir(captured: tuple[Path, Path]) -> str:
    with pytest.MonkeyPatch.context() as patch, Reproducer.open(captured[0]) as reproducer:
        patch.setenv("XDG_CONFIG_HOME", str(captured[1]))
        return compile_source(reproducer, "hip:gfx942", "the check is for gfx942")


GLUON = """
from triton.experimental import gluon
from triton.experimental.gluon import language as gl

@gluon.jit
def square_kernel(x_ptr, scores_ptr, n, BLOCK: gl.constexpr):
    offsets = gl.program_id(0) * 256 + gl.arange(0, 256, layout=BLOCK)
    x = gl.load(x_ptr + offsets, mask=offsets < n)
    gl.store(scores_ptr + offsets, x * x, mask=offsets < n)
"""
LAYOUT = OpaqueValue(
    type_name="triton.experimental.gluon.language._layouts.BlockedLayout",
    repr="BlockedLayout(size_per_thread=[1], threads_per_warp=[32], warps_per_cta=[4], order=[0], "
    "cga_layout=[])",
)


def compiled_instead(captured: tuple[Path, Path], text: str, value: Value) -> str:
    """A source with ``value`` for its BLOCK."""

    def change(argument: Argument) -> Argument:
        return msgspec.structs.replace(argument, value=value) if argument.name == "BLOCK" else argument

    with Reproducer.open(captured[0]) as reproducer:
        return compile_source(reproducer, "cuda:90", "", instead=Instead(text, "candidate.py", change))


def test_a_layout_of_gluon_is_made_for_the_compiler(captured: tuple[Path, Path]) -> None:
    text = compiled_instead(captured, GLUON, LAYOUT)
    assert "#ttg.blocked<{sizePerThread = [1], threadsPerWarp = [32], warpsPerCTA = [4]" in text
    assert read_module(text).kernel.name == "square_kernel"


def test_only_what_triton_rejects_does_not_compile(captured: tuple[Path, Path]) -> None:
    """A value that can't be made here is no fault of the source's."""
    with pytest.raises(DoesNotCompile, match="square_kernel does not compile for cuda:90"):
        compiled_instead(captured, GLUON.replace("x * x", "x.no_such_thing"), LAYOUT)
    for value in (OpaqueValue(type_name="a.B", repr="?"), msgspec.structs.replace(LAYOUT, repr="Odd()")):
        with pytest.raises(BackendUnavailable) as caught:
            compiled_instead(captured, GLUON, value)
        assert not isinstance(caught.value, DoesNotCompile)


def test_a_module_that_ends_its_process_is_said(
    captured: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kerncap.api import compiled_ttir

    quiet = tmp_path / "python"
    quiet.write_text("#!/bin/sh\ncase \"$*\" in *compile_source*) echo no more >&2; exit 7;; esac\n"
                     f'exec {sys.executable} "$@"\n')  # fmt: skip
    quiet.chmod(0o755)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(captured[1]))
    with pytest.raises(BackendUnavailable, match="ended with status 7 as it compiled the source: no more"):
        sanitize_reproducer(captured[0], python=str(quiet))
    quiet.write_text("#!/bin/sh\ncase \"$*\" in *compile_source*) sleep 100;; esac\n"
                     f'exec {sys.executable} "$@"\n')  # fmt: skip
    monkeypatch.setattr(compiled_ttir, "TIMEOUT_S", 0.2)
    with pytest.raises(BackendUnavailable, match=r"for cuda:90 took longer than 0\.2 s"):
        sanitize_reproducer(captured[0], python=str(quiet))
