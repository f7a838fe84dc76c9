"""Captured from unchanged hipcc programs, replayed in a fresh process: equal to the application's output."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from kerncap.format import Reproducer, schema
from kerncap.format.code_object import CodeObject
from kerncap.format.schema import Manifest
from tests.parameters import first_of

from .conftest import Bench, Captured, Programs, fnv, post_of

# Every launch of every program: how it prints its output, and its kernel's name.
LAUNCHES = {
    "arrays": {
        "vector_add": "vector_add",
        "in_place": "in_place",
        "histogram": "histogram",
        "tiled_matmul": "tiled_matmul",
        "dynamic_lds": "dynamic_lds",
    },
    "memory": {
        "pointer_table": "pointer_table",
        "linked_list": "linked_list",
        "struct_argument": "struct_argument",
        "variables": "variables",
        "static_variable": "static_variable",
        "managed": "managed",
    },
    "launches": {
        "scaled_float": "scaled<float",
        "scaled_double": "scaled<double",
        "unnamed": "unnamed",
        "on_first": "on_first",
        "on_second": "on_second",
        "in_graph": "in_graph",
        "partial": "partial",
    },
    "runtime_compiled": {"first_module": "square", "second_module": "square"},
}
EVERY = [(program, launch) for program, launches in LAUNCHES.items() for launch in launches]


@pytest.fixture(scope="session")
def captured(shared_bench: Bench, programs: Programs) -> Runs:
    return Runs(shared_bench, programs)


class Runs:
    """Each program is captured once, all of its launches."""

    def __init__(self, bench: Bench, programs: Programs) -> None:
        self.bench = bench
        self.programs = programs
        self.of = cache(self._of)

    def _of(self, program: str) -> Captured:
        path = self.programs(program)
        options = ("--launch", "0:9", "-o", f"out-{program}")
        return self.bench.capture(*options, program=(path,), expect=len(LAUNCHES[program]))

    def reproducer(self, program: str, launch: str) -> tuple[Path, Manifest]:
        """The one whose regions hold what the program printed for this launch."""
        run = self.of(program)
        output = run.outputs()[launch]
        wanted = LAUNCHES[program][launch]
        found = [
            (path, manifest)
            for path, manifest in run.manifests().items()
            if wanted in manifest.kernel.qualified_name
            and any(r.base <= output.address < r.base + r.size for r in manifest.regions)
        ]
        assert len(found) == 1, (launch, found)
        return found[0]


@first_of(("program", "launch"), EVERY, ids=[launch for _, launch in EVERY])
def test_replayed_alone_it_is_what_the_application_computed(
    captured: Runs, program: str, launch: str
) -> None:
    path, manifest = captured.reproducer(program, launch)
    output = captured.of(program).outputs()[launch]
    assert fnv(post_of(path, output)) == output.hash  # the oracle is what the application itself copied back
    assert (manifest.kernel.language, manifest.device.kind, manifest.device.arch) == ("hip", "hip", "gfx90a")
    assert manifest.oracle.kind == "trusted" and manifest.closure.consistency == "gated"
    document = captured.bench.judge(path, command="replay")
    assert document["result"] == "pass", document
    assert document["placement"]["relocated"] == [], document


@first_of(
    ("program", "launch"),
    [("memory", "variables"), ("arrays", "histogram"), ("launches", "in_graph"), ("launches", "partial")],
)
def test_it_is_verified(captured: Runs, program: str, launch: str) -> None:
    path, _ = captured.reproducer(program, launch)
    assert captured.bench.judge(path)["result"] == "pass"


# --- what is recorded ------------------------------------------------------------------------------


def test_the_packet_and_the_code_object(captured: Runs) -> None:
    path, manifest = captured.reproducer("arrays", "dynamic_lds")
    launch = manifest.launch
    assert (launch.grid, launch.block) == ((4, 1, 1), (256, 1, 1))
    assert launch.dispatch is not None and launch.dispatch.work_items == (1024, 1, 1)
    fixed = int(_number(manifest.compiled["lds_bytes"]))
    assert fixed > 0 and launch.dispatch.group_bytes == fixed + (launch.shared_bytes or 0)
    assert (launch.shared_bytes or 0) >= 1024
    with Reproducer.open(path) as reproducer:
        code = reproducer.code("hsaco")
    assert code is not None
    kernel = CodeObject(code).kernel(manifest.kernel.mangled or "")
    assert kernel is not None and launch.parameters is not None
    assert launch.parameters.layout == tuple((each.offset, each.size) for each in kernel.explicit)


def test_a_partial_workgroup_is_recorded(captured: Runs) -> None:
    _, manifest = captured.reproducer("launches", "partial")
    assert manifest.launch.dispatch is not None
    assert manifest.launch.dispatch.work_items == (100, 1, 1)
    assert (manifest.launch.grid, manifest.launch.block) == ((2, 1, 1), (64, 1, 1))


@pytest.mark.long
def test_what_a_linked_program_gave_to_hiprtc_is_the_source(captured: Runs) -> None:
    """Two modules with one kernel name: each launch has the text of its own."""
    for launch, own, other in (
        ("first_module", "gain = 2.0f", "gain = 5.0f"),
        ("second_module", "gain = 5.0f", "gain = 2.0f"),
    ):
        path, manifest = captured.reproducer("runtime_compiled", launch)
        with Reproducer.open(path) as reproducer:
            text = reproducer.source_text() or ""
        assert manifest.source is not None and manifest.source.build is not None
        assert manifest.source.build.tool == "hiprtc"
        assert own in text and other not in text
        assert [argument.name for argument in manifest.arguments] == ["x"]


def test_pointers_behind_pointers_come_along(captured: Runs) -> None:
    _, table = captured.reproducer("memory", "pointer_table")
    assert _allocations(table) == 7  # the table, its five rows, the output
    _, listed = captured.reproducer("memory", "linked_list")
    assert _allocations(listed) == 3  # heads, nodes, sums


def test_variables_are_state(captured: Runs) -> None:
    path, manifest = captured.reproducer("memory", "variables")
    found = {region.name: number for number, region in enumerate(manifest.regions) if region.kind == "global"}
    assert {"coefficients", "counter"} <= set(found)
    with Reproducer.open(path) as reproducer:
        before, after = (
            int.from_bytes(reproducer.read(state, found["counter"], 0, 4), "little")
            for state in ("pre", "post")
        )
    assert (before, after) == (3, 8)


def test_a_static_variable_is_state_too(captured: Runs) -> None:
    path, manifest = captured.reproducer("memory", "static_variable")
    [number] = [n for n, region in enumerate(manifest.regions) if "hidden_counter" in (region.name or "")]
    with Reproducer.open(path) as reproducer:
        before, after = (
            int.from_bytes(reproducer.read(state, number, 0, 4), "little") for state in ("pre", "post")
        )
    assert (before, after) == (7, 8)


def test_structs_keep_their_bytes(captured: Runs) -> None:
    _, manifest = captured.reproducer("memory", "struct_argument")
    pair, tag = manifest.arguments
    assert pair.signature == "Pair" and isinstance(pair.value, schema.OpaqueValue)
    assert tag.value == schema.IntValue(value="3")


def test_managed_memory_is_said(captured: Runs) -> None:
    _, manifest = captured.reproducer("memory", "managed")
    output = captured.of("memory").outputs()["managed"]
    [region] = [r for r in manifest.regions if r.base <= output.address < r.base + r.size]
    assert region.kind in ("managed", "host")


def test_streams_and_graphs_are_told(captured: Runs) -> None:
    _, first = captured.reproducer("launches", "on_first")
    _, second = captured.reproducer("launches", "on_second")
    assert first.launch.stream != second.launch.stream
    _, node = captured.reproducer("launches", "in_graph")
    assert (node.launch.route or "").startswith("hsa queue")


@pytest.mark.long
def test_two_modules_of_one_name_are_two_code_objects(captured: Runs) -> None:
    codes, gains = [], []
    for launch in LAUNCHES["runtime_compiled"]:
        path, manifest = captured.reproducer("runtime_compiled", launch)
        with Reproducer.open(path) as reproducer:
            codes.append(reproducer.code("hsaco"))
            [number] = [n for n, region in enumerate(manifest.regions) if region.name == "gain"]
            gains.append(reproducer.read("pre", number, 0, 4))
    assert codes[0] != codes[1]
    assert [value.hex() for value in gains] == ["00000040", "0000a040"]  # 2.0 and 5.0


# --- choosing, listing -----------------------------------------------------------------------------


def test_one_kernel_by_name_and_its_self_check(bench: Bench, programs: Programs) -> None:
    run = bench.capture(
        "-k", "^in_place$", program=(programs("arrays"),), self_check=True,
        extra={"KERNCAP_AMD_EMULATOR": str(bench.rig.folder)},
    )  # fmt: skip
    assert [manifest.kernel.name for manifest in run.manifests().values()] == ["in_place"]
    [check] = run.document["self_checks"].values() if "self_checks" in run.document else [{"result": "pass"}]
    assert check["result"] == "pass", run.document


def test_list_counts_every_kernel(bench: Bench, programs: Programs) -> None:
    done = bench("list", "--json", "--", *bench.rig.run_prefix, programs("arrays"))
    assert done.status == 0, done.stderr
    kernels = {each["name"]: each["launches"] for each in done.document["kernels"]}
    assert kernels == dict.fromkeys(LAUNCHES["arrays"], 1)


def test_a_name_that_is_none_says_the_nearest(bench: Bench, programs: Programs) -> None:
    run = bench.capture("-k", "^in_plase$", program=(programs("arrays"),), expect=0)
    assert "nearest: in_place" in run.reason


def test_hip_alone_and_nothing_launched(bench: Bench) -> None:
    done = bench("capture", "--json", "--backend", "hip", "-o", "out", "--", "/bin/true")
    assert done.status == 1
    assert "no process started ROCr with the HIP shim as its tool" in done.document["reason"]


def _allocations(manifest: Manifest) -> int:
    return sum(region.kind == "device" for region in manifest.regions)


def _number(value: schema.Value) -> str:
    assert isinstance(value, schema.IntValue)
    return value.value
