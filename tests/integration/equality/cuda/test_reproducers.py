"""`kerncap prove` and `verify --prove` for reproducers of CUDA kernels."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import numpy as np
import pytest

from kerncap.api.prove import ProveOptions, prove
from kerncap.format import schema
from kerncap.replay.candidates import tools
from tests.integration.conftest import CommandLine
from tests.integration.equality.cuda.launches import PTX, Tensor, text
from tests.integration.equality.cuda.pairs import EQUAL
from tests.unit.replay.build import Launch
from tests.unit.replay.native import Native

N = 100
SOURCE = PTX.with_name("kernels.cu").read_text(encoding="utf-8")
SILU = """
extern "C" __global__ void silu(const float *x, float *out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) out[i] = x[i] / (1.0f + expf(-x[i]));
}
"""
DOCS = (PTX.parents[4] / "docs" / "proofs.md").read_text(encoding="utf-8").partition("## CUDA C++")[2]
[FASTER] = re.findall(r"```cpp\n(.*?)```", DOCS, re.DOTALL)
TRITON = """@triton.jit
def silu(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, i < n)
    tl.store(out + i, value * tl.sigmoid(value), i < n)
"""


def silu(parent: Path, kernel: str = "silu", **options: object) -> Path:
    x = np.linspace(-3, 3, N, dtype=np.float32)
    out = (x / (1 + np.exp(-x))).astype(np.float32)
    blocks = (2, 1, 1) if kernel == "silu" else (1, 1, 1)
    code = {"ptx": text().encode()}
    launch = Native(kernel, grid=blocks, block=(64, 1, 1), code=code, **options)  # type: ignore[arg-type]
    return launch.array(x).array(np.zeros(N, np.float32), out).integer(N).seal(parent)


def test_two_reproducers_by_their_captured_ptx(kerncap: CommandLine, tmp_path: Path) -> None:
    done = kerncap("prove", silu(tmp_path / "a"), silu(tmp_path / "b", "silu_by_four"))
    assert done.status == 0, done.stdout + done.stderr
    assert "assumed: a CUDA kernel is its PTX, of the capture: what is made of it is trusted" in done.stdout
    assert "assumed: functions of CUDA's math library, and approximations, are what they are" in done.stdout
    assert "nothing races" not in done.stdout
    biased = prove(silu(tmp_path / "c"), silu(tmp_path / "d", "silu_biased"))
    assert biased.words.result == "fail"
    assert biased.proof.witness is not None


def test_a_triton_kernel_and_a_cuda_kernel(tmp_path: Path) -> None:
    x = np.linspace(-3, 3, N, dtype=np.float32)
    first = Launch(TRITON, "silu", (2, 1, 1)).tensor("x", x).tensor("out", np.zeros(N, np.float32), x)
    a = first.argument("n", N).constexpr("BLOCK", 64).seal(tmp_path / "a")
    options = ProveOptions(same={"x": "arg0", "out": "arg1", "n": "arg2"}, trust=True)
    found = prove(a, silu(tmp_path / "b"), options)
    assert found.words.result == "pass", found.words.reasons
    assert "nothing races" in found.words.not_shown[-1]
    assert prove(a, silu(tmp_path / "c", "silu_biased"), options).words.result == "fail"


def test_a_candidate_that_is_ptx(tmp_path: Path) -> None:
    path = silu(tmp_path / "a")
    wrong = tmp_path / "wrong.ptx"
    wrong.write_text(text().replace("neg.f32", "abs.f32"))
    assert prove(path, wrong).words.result == "fail"
    same = tmp_path / "same.ptx"
    same.write_text(text())
    assert prove(path, same).words.result == "pass"


def test_floats_are_known_by_the_instructions_that_access_them(tmp_path: Path) -> None:
    path = silu(tmp_path / "a", with_layout=False, with_views=False)
    same = tmp_path / "same.ptx"
    same.write_text(text())
    assert prove(path, same).words.result == "pass"


def test_arguments_without_names_are_matched_by_their_position(kerncap: CommandLine, tmp_path: Path) -> None:
    """As of a kernel whose name has no types: neither they nor those of what pointers lead to are known."""
    bare = silu(tmp_path / "a", with_views=False), silu(tmp_path / "b", "silu_by_four", with_views=False)
    done = kerncap("prove", *bare)
    assert done.status == 0, done.stdout + done.stderr
    assert f"arguments in the same position are the same: {bare[0].name} has no names" in done.stdout
    x = np.linspace(-3, 3, N, dtype=np.float32)
    named = Launch(TRITON, "silu", (2, 1, 1)).tensor("x", x).tensor("out", np.zeros(N, np.float32), x)
    triton = named.argument("n", N).constexpr("BLOCK", 64).seal(tmp_path / "c")
    found = prove(triton, bare[0], ProveOptions(trust=True))
    assert found.words.result == "pass", found.words.reasons
    assert found.matched == [("x", "arg0"), ("out", "arg1"), ("n", "arg2")]
    biased = prove(bare[0], silu(tmp_path / "d", "silu_biased", with_views=False))
    assert biased.words.result == "fail"


@pytest.mark.parametrize("name", ["half", "tensor cores"])
def test_what_memory_holds_is_known_by_its_use(tmp_path: Path, name: str) -> None:
    """Half floats are loaded as 16 or 32 bits, or copied, and no argument says what they are."""
    paths = []
    for one in EQUAL[name]:
        code = {"ptx": text().encode()}
        launch = Native(one.kernel, grid=one.grid, block=one.block, code=code, with_views=False)
        for given in one.arguments:
            if isinstance(given, Tensor):
                values = np.linspace(-3, 3, given.elements).astype(given.dtype)
                launch.array(values, values[::-1])
            else:
                launch.integer(int(given[1]))
        paths.append(launch.seal(tmp_path / one.kernel))
    found = prove(*paths)
    assert found.words.result == "pass", found.words.reasons


class WithoutValues(Native):
    def finished(self, manifest: schema.Manifest) -> schema.Manifest:
        closure = msgspec.structs.replace(manifest.closure, included_bytes=0, left_out=(schema.ALL_CONTENTS,))
        return msgspec.structs.replace(manifest, closure=closure)


def test_integers_that_were_not_captured_are_not_zero(tmp_path: Path) -> None:
    gather = """
.version 8.0
.target sm_80
.address_size 64
.visible .entry gather(.param .u64 x, .param .u64 at, .param .u64 out) {
    ld.param.u64 %rd1, [x];
    ld.param.u64 %rd2, [at];
    ld.param.u64 %rd3, [out];
    ld.global.u32 %r1, [%rd2];
    mul.wide.u32 %rd4, %r1, 4;
    add.s64 %rd5, %rd1, %rd4;
    ld.global.f32 %f1, [%rd5];
    st.global.f32 [%rd3], %f1;
    ret;
}
"""
    results = []
    for kind in (Native, WithoutValues):
        launch = kind("gather", block=(1, 1, 1), code={"ptx": gather.encode()})
        launch.array(np.ones(4, np.float32)).array(np.zeros(1, np.int32)).array(np.zeros(1, np.float32))
        path = launch.seal(tmp_path / kind.__name__)
        results.append(prove(path, path).words)
    assert results[0].result == "pass"
    assert results[1].result == "undecided"
    assert "contents of arg1 are not available" in results[1].reasons[0]


class TestWithNvcc:
    @pytest.fixture(autouse=True)
    def nvcc(self) -> None:
        found = tools.nvcc()
        if isinstance(found, str):
            pytest.skip(found)

    def test_an_edit_of_the_source(self, kerncap: CommandLine, tmp_path: Path) -> None:
        path = silu(tmp_path / "a", source=SILU)
        faster, wrong = tmp_path / "faster.cu", tmp_path / "wrong.cu"
        faster.write_text(FASTER)
        wrong.write_text(FASTER.replace("if (i < n)", "if (i < n - 1)"))
        done = kerncap("prove", path, faster, "--trust")
        assert done.status == 0, done.stdout + done.stderr
        [shown] = re.findall(r"```text\n(.*?)```", DOCS, re.DOTALL)
        same = re.sub(r"nvcc [\d.]+", "nvcc 13.0", done.stdout.partition("\n")[2])
        assert same == shown
        done = kerncap("prove", path, wrong, "--json")
        assert done.status == 1, done.stdout + done.stderr
        assert done.document["witness"]["tensor"] == "arg1"
        assert done.document["witness"]["element"] == N - 1
        both = prove(faster, wrong, ProveOptions(launch=path))
        assert both.words.result == "fail"

    @pytest.mark.long
    def test_the_recorded_ptx_is_of_the_source(self, tmp_path: Path) -> None:
        """What the pairs are proved of is what the kernels say: those of one name are equal."""
        path = silu(tmp_path / "a", source=SOURCE)
        recorded = tmp_path / "recorded.ptx"
        recorded.write_text(text())
        assert prove(path, recorded).words.result == "pass"

    def test_a_stranger_is_not_compiled(self, kerncap: CommandLine, tmp_path: Path) -> None:
        path = silu(tmp_path / "a", source=SILU)
        done = kerncap("prove", path, path, env={"XDG_CONFIG_HOME": str(tmp_path / "other")})
        assert done.status == 2, done.stdout + done.stderr
        assert "repeat with --trust" in done.stderr
