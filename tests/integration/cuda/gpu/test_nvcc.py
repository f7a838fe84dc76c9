"""Unchanged programs of nvcc: arguments, pointers in memory, kinds of memory, variables, kinds of launch."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine

from .captured import TARGETS, Captured, Judge, build, capture, compile_candidate

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(500)]

# What a mangled name holds, of every kernel of several.cu.
SEVERAL = (
    "kc_add", "kc_scale", "kc_histogram", "kc_table", "9kc_struct4", "kc_struct_in_memory", "kc_templateIf",
    "kc_templateIj", "kc_anonymous", "kc_lambda", "kc_list", "kc_hash", "kc_no_arguments", "kc_managed",
    "kc_pinned", "kc_pool", "kc_side_stream", "kc_large_shared",
)  # fmt: skip
OTHERS = ("kc_variables", "kc_other", "kc_untouched", "kc_cooperative", "10kc_cluster", "kc_fixed_cluster")
SHARED_CUDART = {
    ("several.cu",): ("kc_table", "kc_no_arguments", "kc_templateIf", "kc_large_shared"),
    ("variables.cu", "variables_other.cu"): ("kc_variables", "kc_other"),
    ("launches.cu",): ("kc_cooperative", "10kc_cluster"),
}

# Bodies of kernels that do nothing, by name: what a candidate must not get away with.
NOTHING = {
    "kc_add": "__global__ void kc_add(const float*, const float*, float*, int) {}",
    "kc_scale": "__global__ void kc_scale(float*, float, int) {}",
    "kc_table": "__global__ void kc_table(float* const*, int, int) {}",
    "kc_histogram": "__global__ void kc_histogram(const unsigned*, unsigned*, int) {}",
}
SCALE_AGAIN = """
__global__ void kc_scale(float* x, float s, int n) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] = s * x[i];
}
"""


@pytest.fixture(scope="module")
def several(kerncap_of_module: CommandLine, judge: Judge) -> Captured:
    program = build("several.cu")
    captured = capture(kerncap_of_module, program, options=("-k", "kc_", "--launch", "0:1"))
    judge.prepare(captured.reproducers)
    return captured


@pytest.fixture(scope="module")
def others(kerncap_of_module: CommandLine, judge: Judge) -> dict[str, Captured]:
    """By program: variables of two modules, cooperative and cluster launches."""
    made = {}
    for sources in (("variables.cu", "variables_other.cu"), ("launches.cu",)):
        options = ("-k", "kc_", "--launch", "0:1")
        made[sources[0]] = capture(kerncap_of_module, build(*sources), options=options)
    judge.prepare(path for captured in made.values() for path in captured.reproducers)
    return made


def test_the_programs_notice_nothing(several: Captured, others: dict[str, Captured]) -> None:
    for captured in (several, *others.values()):
        captured.target_is_unchanged()
        assert captured.plain.status == 0, captured.plain.stderr


@pytest.mark.parametrize("kernel", SEVERAL)
def test_replayed_bit_for_bit_and_verified(several: Captured, judge: Judge, kernel: str) -> None:
    path = several.one(kernel)
    with Reproducer.open(path) as reproducer:
        manifest = reproducer.manifest
    assert manifest.closure.consistency == "gated"
    assert manifest.launch.mode == "native"
    assert manifest.launch.ordinal == 0
    judge.agrees(path)


@pytest.mark.parametrize("kernel", OTHERS)
def test_variables_and_kinds_of_launch(others: dict[str, Captured], judge: Judge, kernel: str) -> None:
    program = "variables.cu" if kernel in OTHERS[:3] else "launches.cu"
    judge.agrees(others[program].one(kernel))


def test_what_a_manifest_says_of_the_launch(several: Captured, others: dict[str, Captured]) -> None:
    launches = others["launches.cu"]
    cooperative = launches.reproducers[launches.one("kc_cooperative")]
    assert cooperative.launch.cooperative
    cluster = launches.reproducers[launches.one("10kc_cluster")]
    assert cluster.launch.cluster == (4, 1, 1)
    shared = several.reproducers[several.one("kc_large_shared")]
    assert shared.launch.shared_bytes == 160 * 1024
    plain = several.reproducers[several.one("kc_add")]
    assert plain.launch.grid == (256, 1, 1) and plain.launch.block == (256, 1, 1)
    assert plain.launch.parameters is not None and plain.launch.parameters.layout == (
        (0, 8), (8, 8), (16, 8), (24, 4),
    )  # fmt: skip
    mesh = several.reproducers[several.one("9kc_struct4")]
    assert mesh.launch.parameters is not None and mesh.launch.parameters.layout == ((0, 32),)


@pytest.mark.parametrize(
    ("kernel", "kind"),
    [("kc_add", "device"), ("kc_managed", "managed"), ("kc_pinned", "host"), ("kc_no_arguments", "global")],
)
def test_kinds_of_memory_are_told_apart(several: Captured, kernel: str, kind: str) -> None:
    manifest = several.reproducers[several.one(kernel)]
    kinds = {region.kind for region in manifest.regions}
    assert kind in kinds and kinds <= {kind, "global"}, manifest.regions
    if kind == "global":
        assert [region.name for region in manifest.regions] == ["visits"]


def test_variables_of_one_name_are_kept_apart(others: dict[str, Captured]) -> None:
    """Both modules have a `counter` and a `table`; each kernel saw its own."""
    captured = others["variables.cu"]
    for kernel, table in (("kc_variables", (0.5, 1.5, 2.5, 3.5)), ("kc_other", (100, 200, 300, 400))):
        with Reproducer.open(captured.one(kernel)) as reproducer:
            tables = [
                number
                for number, region in enumerate(reproducer.manifest.regions)
                if region.kind == "global" and region.name == "table" and region.module == 0
            ]
            assert len(tables) == 1, reproducer.manifest.regions
            assert struct.unpack("<4f", reproducer.read("pre", tables[0], 0, 16)) == table


@pytest.mark.parametrize("kernel", NOTHING)
def test_a_candidate_that_does_nothing_fails(
    several: Captured, judge: Judge, kernel: str, tmp_path: Path
) -> None:
    path = several.one(kernel)
    source = tmp_path / "nothing.cu"
    source.write_text(NOTHING[kernel] + "\n")
    judge.rejects(path, source)
    judge.rejects(path, compile_candidate(source, several.reproducers[path].device.arch))


def test_another_way_to_write_it_passes(several: Captured, judge: Judge, tmp_path: Path) -> None:
    path = several.one("kc_scale")
    source = tmp_path / "again.cu"
    source.write_text(SCALE_AGAIN)
    judge.accepts(path, source)
    judge.accepts(path, compile_candidate(source, several.reproducers[path].device.arch))
    wrong = tmp_path / "wrong.cu"
    wrong.write_text(SCALE_AGAIN.replace("s * x[i]", "s * x[i] + (i == n - 1)"))
    judge.rejects(path, wrong)


def test_the_source_is_found_by_the_line_table(several: Captured, judge: Judge, tmp_path: Path) -> None:
    path = several.one("kc_templateIf")
    with Reproducer.open(path) as reproducer:
        assert reproducer.manifest.kernel.file is not None
        assert reproducer.manifest.kernel.file.endswith("several.cu")
        text = (TARGETS / "several.cu").read_text()
        line = next(n for n, t in enumerate(text.splitlines(), 1) if "kc_template(" in t)
        assert reproducer.manifest.kernel.line is not None
        assert abs(reproducer.manifest.kernel.line - line) <= 3, "a line of its body may stand for it"
        source = reproducer.source_text()
    assert source is not None and "T(2)" in source


def test_shared_cudart_gives_the_same(
    kerncap_of_module: CommandLine, judge: Judge, several: Captured, others: dict[str, Captured]
) -> None:
    paths = []
    for (sources, kernels), static in zip(SHARED_CUDART.items(), (several, *others.values()), strict=True):
        options = ("-k", "|".join(kernels), "--launch", "0:1")
        captured = capture(kerncap_of_module, build(*sources, cudart="shared"), options=options)
        captured.target_is_unchanged()
        assert captured.captured.stdout == static.captured.stdout
        paths += [captured.one(kernel) for kernel in kernels]
    judge.prepare(paths)
    for path in paths:
        judge.agrees(path)


def test_the_nth_launch_of_one_kernel(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """The third scaling starts from what two have left."""
    captured = capture(
        kerncap_of_module,
        build("several.cu"),
        options=("-k", "^kc_scale$", "--launch", "2", "--memory", "args"),
    )
    [path] = captured.reproducers
    manifest = captured.reproducers[path]
    assert (manifest.launch.ordinal, manifest.closure.mode) == (2, "args")
    judge.agrees(path)


def test_the_last_launches_of_one_kernel(kerncap_of_module: CommandLine, judge: Judge) -> None:
    """Which they are is known only at the end: each waits on the device until it is none of the last two."""
    options = ("-k", "^kc_scale$", "--last", "2")
    captured = capture(kerncap_of_module, build("several.cu"), options=options)
    captured.target_is_unchanged()
    assert sorted(m.launch.ordinal for m in captured.reproducers.values()) == [1, 2]
    judge.prepare(captured.reproducers)
    for path in captured.reproducers:
        judge.agrees(path)


def test_without_a_selector_kernels_with_a_source_are_taken(kerncap_of_module: CommandLine) -> None:
    captured = capture(kerncap_of_module, build("launches.cu"), options=())
    captured.target_is_unchanged()
    assert {m.kernel.name for m in captured.reproducers.values()} == {
        "kc_cooperative", "kc_cluster", "kc_fixed_cluster",
    }  # fmt: skip


def test_the_self_check_passes(kerncap_of_module: CommandLine) -> None:
    done = kerncap_of_module("capture", "--json", "-k", "kc_add", "-o", "checked", "--", build("several.cu"))
    [path] = done.document["captured"]
    assert done.document["self_checks"][path]["result"] == "pass", done.document


def test_a_snapshot_beside_another_stream_is_of_one_moment(
    kerncap_of_module: CommandLine, judge: Judge
) -> None:
    captured = capture(kerncap_of_module, build("concurrent.cu"), options=("-k", "kc_read", "--launch", "5"))
    captured.target_is_unchanged()
    [path] = captured.reproducers
    with Reproducer.open(path) as reproducer:
        [number] = [n for n, r in enumerate(reproducer.manifest.regions) if r.size >= 4 << 22]
        region = reproducer.read("pre", number, 0, 4 << 22)
    assert region == region[:4] * (1 << 22), "the other stream wrote while the buffer was copied"
    judge.agrees(path)


def test_nothing_matches_is_said(kerncap_of_module: CommandLine) -> None:
    captured = capture(kerncap_of_module, build("launches.cu"), options=("-k", "no_such_kernel"))
    assert captured.captured.status == 1
    assert captured.captured.stdout == captured.plain.stdout
    assert "nothing captured:" in captured.captured.stderr
    assert "no_such_kernel" in captured.captured.stderr
    assert captured.reproducers == {}
