"""`export` on reproducers made by hand: what it refuses, and that no text of theirs becomes a program."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from kerncap.api.export import Kind, export
from kerncap.api.export.launch_header import quoted
from kerncap.api.export.project_words import plain
from kerncap.api.export.python_values import number
from kerncap.errors import UsageError
from kerncap.format import Reproducer, schema
from kerncap.format.range_writer import write_range
from tests.unit.capture.built_images import cubin
from tests.unit.replay.build import Launch, add
from tests.unit.replay.native import Native

GOLDEN = Path(__file__).parents[2] / "golden"
EVIL = 'x"""\n\'; import os; os.abort() # */ } ?>'


def test_a_script_of_one_kernel(tmp_path: Path) -> None:
    made = export(add().seal(tmp_path), "script", tmp_path / "out")
    assert {name for name, _ in made.files} == {"add.py", *(f"data/{n}.gz" for n in (
        "x_ptr.after", "y_ptr.after", "out_ptr.after", "out_ptr.flip"))}  # fmt: skip
    text = (made.path / "add.py").read_text()
    ast.parse(text)
    assert "GRID = (4, 1, 1)" in text and "kerncap" not in text.split('"""')[2]
    assert made.as_dict()["as"] == "script" and made.run[0] == f"python {tmp_path / 'out'}/add.py"
    with pytest.raises(UsageError, match="already there"):
        export(tmp_path, "script", tmp_path / "out")
    with pytest.raises(UsageError, match="can't be written: File name too long"):
        export(add().seal(tmp_path / "again"), "script", tmp_path / ("o" * 300))


def test_texts_of_a_manifest_stay_texts(tmp_path: Path) -> None:
    launch = add()
    launch.argument(EVIL, EVIL)
    text = export(launch.seal(tmp_path), "script", tmp_path / "out.py").path.read_text()
    tree = ast.parse(text)
    assert EVIL in {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)}
    assert not any(isinstance(n, ast.Attribute) and n.attr == "abort" for n in ast.walk(tree))
    assert plain(EVIL) == "x___ '; import os; os.abort() # _ } ?>"
    assert quoted(EVIL) == r'"x\042\042\042\012' + "'" + r'; import os; os.abort() # */ } \077>"'


def test_names_of_the_kernel_come_first(tmp_path: Path) -> None:
    """The script's own names give way to those of the source."""
    other = "@triton.jit\ndef run(x):\n    return x\n\n\njudge = 1\n"
    source = other + add().source
    text = export(add(source=source).seal(tmp_path), "script", tmp_path / "out.py").path.read_text()
    assert "def judge_(memory" in text and "def run_(kernel" in text and "= run_(kernel)" in text
    broken = add(source=add().source + "\nzlib = 3\n").seal(tmp_path)
    with pytest.raises(UsageError, match="uses zlib as another name"):
        export(broken, "script", tmp_path / "no.py")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (schema.OpaqueValue(type_name="Mesh", repr="…"), "argument odd holds a Mesh"),
        (schema.PointerValue(address=0x1234, dtype="float32"), "argument odd is the bare address 0x1234"),
        (schema.FunctionValue(name="gone"), "argument odd is the function gone"),
    ],
)
def test_what_no_script_can_make(tmp_path: Path, value: schema.Value, reason: str) -> None:
    path = add().argument("odd", value).seal(tmp_path)
    with pytest.raises(UsageError, match=reason):
        export(path, "script", tmp_path / "out")
    assert not (tmp_path / "out").exists() and not list(tmp_path.glob(".out*"))


def test_overlapping_elements_are_refused(tmp_path: Path) -> None:
    launch = add()
    region = launch.region(np.zeros(8, np.float32))
    view = launch.view("window", region, "float32", (3, 4), strides=(2, 1))
    path = launch.argument("window", schema.TensorValue(view=view)).seal(tmp_path)
    with pytest.raises(UsageError, match="elements of window overlap"):
        export(path, "script", tmp_path / "out")


def test_a_pointer_in_memory_is_set_anew(tmp_path: Path) -> None:
    launch = add()
    table = np.array([launch.regions[0][0] + 8, 7], dtype=np.int64)
    text = export(launch.tensor("table", table).seal(tmp_path), "script", tmp_path / "o.py").path.read_text()
    assert 'POINTERS = [\n    ("table", 0, "x_ptr", 8),\n]' in text


def test_what_is_large_needs_a_folder(tmp_path: Path) -> None:
    noise = np.random.default_rng(0).integers(0, 256, 1 << 20, dtype=np.uint8)
    path = add().tensor("noise", noise).seal(tmp_path)
    with pytest.raises(UsageError, match=r"1.4 MiB in one file, more than 1.0 MiB: give a folder"):
        export(path, "script", tmp_path / "out.py")


def test_without_values_there_is_nothing_to_compare(tmp_path: Path) -> None:
    launch = add()
    launch.left_out_bytes = 12_000
    with pytest.raises(UsageError, match="--no-values"):
        export(launch.seal(tmp_path), "script", tmp_path / "out")


def test_what_is_private_is_replaced(tmp_path: Path) -> None:
    path = Launch(add().source + "\n# /home/somebody/kernels.py\n", "add").seal(tmp_path)
    made = export(path, "script", tmp_path / "out.py")
    assert made.findings and "somebody" not in made.path.read_text()
    assert "somebody" in export(path, "script", tmp_path / "b.py", keep_private=["users"]).path.read_text()


def test_kinds_of_launches(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a script launches Triton ones: use --as cmake"):
        export(GOLDEN / "v1.1", "script", tmp_path / "a")
    with pytest.raises(UsageError, match="no code for a GPU: use --as script"):
        export(add().seal(tmp_path), "cmake", tmp_path / "b")


def test_numbers() -> None:
    assert [number(text) for text in ("-inf", "nan", "0x1.8000000000000p+0")] == [
        'float("-inf")', 'float("nan")', "1.5"
    ]  # fmt: skip


@pytest.mark.parametrize(("version", "image"), [("v1.1", "cubin"), ("v1.3", "hsaco")])
def test_golden_native_projects(tmp_path: Path, version: str, image: str) -> None:
    folder = export(GOLDEN / version, "cmake", tmp_path / "out").path
    header = (folder / "launch.h").read_text()
    assert '"_ZN2ns5scaleIfEEvPT_PKS1_id4Pair", 0,' in header
    assert (folder / "code" / f"kernel.{image}").is_file() and (folder / "source" / "gain.h").is_file()
    assert "Kind::Variable, 0}," in header and '{"coef", ' in header
    recipe = (folder / "CMakeLists.txt").read_text()
    assert '"-std=c++17" "-O3"' in recipe and "add_custom_target(rebuilt" in recipe
    if version == "v1.1":
        assert "{4, {2}}" in header and "{2, {1}}" in header and "{}, 49152," in header
    else:
        assert "{1000, 2, 1}, " in header and "PARAMETERS_0, 48, " in header


def golden_range(folder: Path) -> Path:
    folder.mkdir()
    with Reproducer.open(GOLDEN / "v1.1") as golden:
        return write_range(folder, [(0, golden), (3, golden)])


def test_a_range_as_a_native_project(tmp_path: Path) -> None:
    path = golden_range(tmp_path / "range")
    made = export(path, "cmake", tmp_path / "out")
    header = (made.path / "launch.h").read_text()
    assert header.count('"_ZN2ns5scaleIfEEvPT_PKS1_id4Pair", 0,') == 2, "of one module"
    assert header.count('{"coef", ') == 1 and (made.path / "code" / "kernel.cubin").is_file()
    recipe = (made.path / "CMakeLists.txt").read_text()
    assert "add_custom_target(rebuilt_0 " in recipe and "0=${REBUILT}" in recipe
    one = export(GOLDEN / "v1.1", "cmake", tmp_path / "one")
    sizes = [(each.path / "memory.bin").stat().st_size for each in (one, made)]
    assert sizes[1] < 2 * sizes[0], "what did not change is there once"
    for kind in ("kernelbench", "pygpubench"):
        with pytest.raises(UsageError, match="a task is of one launch; kerncap slice"):
            export(path, cast(Kind, kind), tmp_path / kind)
    with pytest.raises(UsageError, match="a range is exported as a folder"):
        export(path, "script", tmp_path / "one.py")


def test_a_launch_of_a_range_that_no_project_can_make_is_named(tmp_path: Path) -> None:
    with Reproducer.open(add().seal(tmp_path / "one")) as launch:
        path = write_range(tmp_path, [(0, launch), (1, launch)])
    with pytest.raises(UsageError, match="launch 0: it was captured on a cpu, .* GPU: use --as script"):
        export(path, "cmake", tmp_path / "out")


def test_a_launch_of_a_range_that_did_not_end(tmp_path: Path) -> None:
    fault = schema.Oracle(kind="fault", error="it faulted")
    one = Native("k", oracle=fault).array(np.zeros(4, np.float32))
    one.code = {"cubin": cubin(kernels={"k": one.layout})}
    with Reproducer.open(one.seal(tmp_path / "one")) as launch:
        path = write_range(tmp_path, [(0, launch), (1, launch)])
    with pytest.raises(UsageError, match="launch 0: it ended with a fault, so nothing is known of those"):
        export(path, "cmake", tmp_path / "out")


def test_a_launch_that_writes_the_address_of_a_variable(tmp_path: Path) -> None:
    launch = Native("through")
    table = 0x7E00_0000_5000
    launch.array(np.zeros(2, np.uint64), np.array([7, table], np.uint64))
    launch.region(np.array([1, 2], np.uint64), kind="global", name="table", base=table)
    launch.code = {"cubin": cubin(kernels={"through": launch.layout}, variables=[("table", ".bss")])}
    with pytest.raises(UsageError, match="the launch writes the address of table \\(byte 8 of region 1"):
        export(launch.seal(tmp_path), "cmake", tmp_path / "out")


def test_a_task_is_a_function_of_its_tensors(tmp_path: Path) -> None:
    made = export(add().seal(tmp_path), "kernelbench", tmp_path / "task")
    text = (made.path / "add.py").read_text()
    ast.parse(text)
    assert "def run(x_ptr, y_ptr, out_ptr):" in text  # which bytes it only writes was never measured
    assert (
        "KERNEL[(4, 1, 1)](x_ptr=x_ptr, y_ptr=y_ptr, out_ptr=out_ptr, n=1000, BLOCK=256, **OPTIONS)" in text
    )
    assert made.run[0].endswith(f"ref_arch_src_path={made.path}/add.py kernel_src_path=SOLUTION.py")


def two_outputs() -> Launch:
    return add().tensor("copy_ptr", np.zeros(4, np.float32), np.ones(4, np.float32))


def views_of_one_region() -> Launch:
    launch = add()
    region = launch.region(np.zeros(8, np.float32), np.ones(8, np.float32))
    for name, offset in (("low", 0), ("high", 8)):
        view = launch.view(name, region, "float32", (6,), offset=offset)
        launch.argument(name, schema.TensorValue(view=view))
    return launch


def outside_of_tensors() -> Launch:
    launch = add()
    region = launch.region(np.zeros(8, np.float32), np.ones(8, np.float32))
    view = launch.view("part", region, "float32", (4,), strides=(2,))
    return launch.argument("part", schema.TensorValue(view=view))


def unchanged() -> Launch:
    return Launch(add().source, "add").tensor("x_ptr", np.zeros(4, np.float32))


def suspect() -> Launch:
    launch = add()
    launch.oracle = schema.Oracle(kind="suspect", condition="nonfinite")
    return launch


@pytest.mark.parametrize(
    ("launch", "kind", "reason"),
    [
        (two_outputs, "kernelbench", "writes out_ptr, copy_ptr, but KernelBench compares one"),
        (two_outputs, "pygpubench", "writes out_ptr, copy_ptr, but PyGPUBench compares one"),
        (views_of_one_region, "flashinfer-trace", "low is written and shares memory with high"),
        (outside_of_tensors, "flashinfer-trace", "writes memory that no tensor argument shows"),
        (unchanged, "kernelbench", "the launch changes no tensor"),
        (suspect, "kernelbench", "its result is suspect, and a task asks for a right one"),
        (lambda: add().tensor("odd", np.zeros(4, np.uint8)), "flashinfer-trace", "odd is of uint8"),
        (lambda: add().argument("odd", schema.PointerValue(address=0x1234, dtype="float32")), "kernelbench",
         "argument odd is a bare address"),
        (lambda: add().argument("a b", 1), "kernelbench", "argument a b can't be passed by name"),
    ],
)  # fmt: skip
def test_what_is_no_task(tmp_path: Path, launch: Callable[[], Launch], kind: Kind, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        export(launch().seal(tmp_path), kind, tmp_path / "task")
    assert not (tmp_path / "task").exists()
