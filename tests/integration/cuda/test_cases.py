"""Cases that a user would try first: values in, values out, nothing twice, nothing missed."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.integration.cuda.conftest import Bench, opened
from tests.parameters import first_of


def floats(path: Path, address: int, count: int, state: str = "pre") -> tuple[float, ...]:
    """Floats of a reproducer at a device address."""
    with opened(path) as reproducer:
        for index, region in enumerate(reproducer.manifest.regions):
            if region.base <= address < region.base + region.size:
                data = reproducer.read(
                    "pre" if state == "pre" else "post", index, address - region.base, 4 * count
                )
                return struct.unpack(f"<{count}f", data)
    raise AssertionError(f"no region holds {address:#x}")


def pointers(path: Path) -> list[int]:
    """The 64-bit parameters of the launch."""
    with opened(path) as reproducer:
        parameters = reproducer.manifest.launch.parameters
    assert parameters is not None and parameters.layout is not None
    data = bytes.fromhex(parameters.bytes)
    return [int.from_bytes(data[at : at + size], "little") for at, size in parameters.layout if size == 8]


def test_vector_add_replays_to_the_applications_output(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", client=("vector_add", "1000"), self_check=True)
    assert captured.document["self_checks"], "each reproducer is replayed once"
    manifest = captured.manifest()
    assert manifest.kernel.name == "vector_add"
    assert manifest.kernel.mangled == "_Z10vector_addPKfS0_Pfi"
    assert manifest.launch.grid == (4, 1, 1) and manifest.launch.block == (256, 1, 1)
    assert manifest.closure.consistency == "gated"
    limits = manifest.launch.limits
    assert limits is not None and (limits.stack_bytes, limits.heap_bytes) == (1024, 8 << 20)
    a, b, out = pointers(captured.path)
    assert floats(captured.path, a, 3) == (0, 1, 2)
    assert floats(captured.path, b, 3) == (0, 0.5, 1)
    assert floats(captured.path, out, 4, "post") == (0, 1.5, 3, 4.5)
    assert bench.judge(captured.path, command="replay")["result"] == "pass"
    bench.passes(captured.path)


def test_without_a_selector_kernels_with_no_source_are_named_only(bench: Bench) -> None:
    captured = bench.capture(client=("values", "many"), expect=0)
    assert captured.done.status == 1
    assert "source" in captured.reason and "-k" in captured.reason, "a ready command for one of them"
    assert {kernel["name"] for kernel in captured.document["kernels"]} == {"increment", "scale_in_place"}


@pytest.mark.long
@pytest.mark.parametrize("case", ["in_place", "histogram", "past_the_end", "no_arguments"])
def test_a_case_replays_bit_for_bit(bench: Bench, case: str) -> None:
    captured = bench.capture("-k", ".", client=("values", case))
    bench.passes(captured.path)


def test_a_kernel_that_writes_nothing_has_nothing_to_compare(bench: Bench) -> None:
    captured = bench.capture("-k", "nothing", client=("values", "nothing"))
    document = bench.judge(captured.path)
    assert document["result"] == "undecided"
    assert "nothing to compare" in str(document)


@pytest.mark.parametrize(
    ("variant", "result"),
    [
        pytest.param(0, "pass", id="same"),
        pytest.param(1, "fail", id="no-op", marks=pytest.mark.long),
        pytest.param(2, "fail", id="beyond", marks=pytest.mark.long),
        pytest.param(3, "fail", id="bit", marks=pytest.mark.long),
    ],
)
def test_candidates_are_judged(bench: Bench, variant: int, result: str) -> None:
    # 1024 floats of 1000 that are used: one past the end is inside the allocation.
    captured = bench.capture("-k", "vector_add", client=("memory_kinds", "reused"))
    candidate = bench.candidate("candidate", variant)
    options = ("--rtol", "0", "--atol", "0") if variant == 3 else ()
    document = bench.judge(captured.path, "--candidate", candidate, *options)
    assert document["result"] == result, document


@first_of(
    ("options", "ordinals"),
    [
        (("--launch", "3"), [3]),
        (("--launch", "2:5"), [2, 3, 4]),
        (("--last", "2"), [8, 9]),
        (("-k", "^scale_in_place$", "--launch", "7"), [7]),
        (("-k", "_Z14scale_in_placePffi", "--launch", "1"), [1]),
        (("--where", "grid[0] == 4", "--launch", "9"), [9]),
    ],
)
def test_selected_launches(bench: Bench, options: tuple[str, ...], ordinals: list[int]) -> None:
    selector = () if "-k" in options else ("-k", "scale_in_place")
    captured = bench.capture(*selector, *options, client=("values", "many"), expect=len(ordinals))
    found = {captured.manifest(path).launch.ordinal: path for path in captured.paths}
    assert sorted(found) == ordinals
    for ordinal, path in found.items():
        # Each launch multiplies by 1.25: the pre-state tells which one it was.
        [x] = pointers(path)
        assert floats(path, x, 2)[1] == pytest.approx(1.25**ordinal, rel=1e-5)
    bench.passes(captured.paths[0])


def test_a_name_that_nothing_matches_is_said(bench: Bench) -> None:
    captured = bench.capture("-k", "no_such_kernel", client=("values", "many"), expect=0)
    assert captured.done.status == 1
    assert "no_such_kernel" in captured.reason
    assert not (bench.kerncap.folder / "out").exists()


@pytest.mark.long
def test_dynamic_shared_memory_beyond_the_default(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "reverse_in_blocks", "--launch", "0:2", client=("values", "shared"), expect=2
    )
    sizes = {captured.manifest(path).launch.shared_bytes: path for path in captured.paths}
    assert sorted(size or 0 for size in sizes) == [4096, 102400]
    for path in captured.paths:
        bench.passes(path)


@pytest.mark.long
def test_the_same_folder_again_is_never_overwritten(bench: Bench) -> None:
    first = bench.capture("-k", "scale_in_place", client=("values", "in_place"))
    before = {path: path.stat().st_mtime_ns for path in first.path.rglob("*") if path.is_file()}
    second = bench.capture("-k", "scale_in_place", client=("values", "in_place"))
    other = bench.capture("-k", "no_such_kernel", client=("values", "in_place"), expect=0)
    assert other.done.status == 1, "what an earlier run captured is no success of this one"
    assert {path: path.stat().st_mtime_ns for path in before} == before
    bench.passes(second.path)


@pytest.mark.long
def test_noise_is_within_tolerance_not_equal(bench: Bench) -> None:
    captured = bench.capture("-k", "noisy_sum", client=("values", "noisy"))
    document = bench.judge(captured.path)
    assert document["result"] == "pass", document


def test_small_closures_only(bench: Bench) -> None:
    captured = bench.capture("-k", "sum_of_rows", client=("pointers", "rows"))
    manifest = captured.manifest()
    # 4 MiB that nothing points to stay out: five rows, the table, the result.
    assert manifest.closure.included_bytes < 1 << 20
    assert manifest.closure.left_out_bytes >= 4 << 20
    everything = bench.capture("-k", "sum_of_rows", "--memory", "all", client=("pointers", "rows"))
    assert everything.manifest().closure.included_bytes >= 4 << 20


def test_max_size_refuses_by_name_before_anything_is_written(bench: Bench) -> None:
    captured = bench.capture(
        "-k", "vector_add", "--max-size", "1MiB", client=("vector_add", "1000000"), expect=0
    )
    assert "max-size" in captured.reason and "vector_add" in captured.reason
    assert not (bench.kerncap.folder / "out").exists()
