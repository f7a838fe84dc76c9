"""Cases that users would try first (numbered as in docs/support.md), each told apart from a
tool that snapshots after the launch, compares replay with replay, takes changed bytes for
written bytes, or ignores tolerances.

One program launches the kernels of most cases and is captured once, as a user would capture it.
"""

from __future__ import annotations

import json
import re
import shutil
import struct
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from kerncap.format import Reproducer, schema
from tests.integration.conftest import CommandLine
from tests.parameters import first_of

TARGETS = Path(__file__).parent / "targets"

SCALE = """
    @triton.jit
    def scale(x_ptr, s, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n)
        tl.store(x_ptr + i, x * s, mask=i < n)
"""

DOUBLE_INTO = """
    @triton.jit
    def double_into(x_ptr, y_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(y_ptr + i, tl.load(x_ptr + i, mask=i < n) * 2, mask=i < n)
"""

KERNELS = (
    SCALE
    + DOUBLE_INTO
    + """
    @triton.jit
    def histogram(x_ptr, bins_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i, mask=i < n, other=0)
        tl.atomic_add(bins_ptr + x, 1, mask=i < n)

    @triton.jit
    def nothing():
        pass

    @triton.jit
    def keep(x_ptr, f, big, flag, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        tl.store(x_ptr + i, i + big)

    @triton.jit
    def named_as_triton_does(self, y_ptr, grid, warmup, fn: tl.constexpr):
        i = tl.arange(0, fn)
        tl.store(y_ptr + i, tl.load(self + i) * grid + warmup)

    @triton.jit
    def odd(x_ptr, y_ptr, stride, extra_ptr, LOW: tl.constexpr, HIGH: tl.constexpr, NOTHING: tl.constexpr,
            TYPE: tl.constexpr, MODE: tl.constexpr, PAIR: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i * stride)
        if extra_ptr is not None:
            x += 1
        if NOTHING is None and MODE == "clip":
            x = tl.minimum(tl.maximum(x, LOW), HIGH)
        tl.store(y_ptr + i * PAIR[1], x.to(TYPE))

    def first_is_worst(call, quantiles):
        call()
        first_is_worst.calls += 1
        return [10.0 - first_is_worst.calls] * 3
    first_is_worst.calls = 0

    configs = [triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((16, 1), (32, 2), (64, 4))]

    @triton.autotune(configs=configs, key=["n"], do_bench=first_is_worst, restore_value=["x_ptr"])
    @triton.jit
    def bump(x_ptr, n, BLOCK: tl.constexpr):
        i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
        tl.store(x_ptr + i, tl.load(x_ptr + i, mask=i < n) + 1, mask=i < n)
"""
)

LAUNCHES = """
    x = torch.arange(100, dtype=torch.float32, device=DEVICE)
    scale[(1,)](x, 3, 100, BLOCK=128)
    assert x[10] == 30

    pool = torch.zeros(400, device=DEVICE)
    x, y = torch.linspace(1, 2, 300, device=DEVICE), pool[:300]
    for _ in range(2):
        double_into[(3,)](x, y, 300, BLOCK=128)

    x = torch.randint(0, 8, (200,), dtype=torch.int32, device=DEVICE)
    bins = torch.full((8,), 5, dtype=torch.int32, device=DEVICE)
    histogram[(4,)](x, bins, 200, BLOCK=64)

    nothing[(2,)]()

    x = torch.zeros(8, dtype=torch.int64, device=DEVICE)
    keep[(1,)](x, 0.1, 2**40 + 1, True, BLOCK=8)

    named_as_triton_does[(1,)](torch.ones(8, device=DEVICE), torch.zeros(8, device=DEVICE), 3, 4, 8)

    base = torch.randn(8, 5, device=DEVICE)
    y = torch.full((8, 2), 7.0, dtype=torch.bfloat16, device=DEVICE)
    odd[(1,)](base[:, 2], y, base.stride(0), None, float("-inf"), float("inf"), None, tl.bfloat16, "clip",
              (1, 2), BLOCK=8)

    x = torch.zeros(100, device=DEVICE)
    for _ in range(2):
        bump[lambda meta: (triton.cdiv(100, meta["BLOCK"]),)](x, 100)
    assert x[0] == 2 and x[99] == 2
"""

Captured = Mapping[tuple[str, int], Path]  # by the kernel's name and the launch's ordinal


@pytest.fixture(scope="module")
def captured(kerncap_of_module: CommandLine) -> Captured:
    target = kerncap_of_module.target(KERNELS + LAUNCHES)
    paths = kerncap_of_module.capture(
        "-k", ".", "--launch", "0:2", "--no-self-check", target=target, expect=10
    )
    launches = [(path, Reproducer.open(path).manifest) for path in paths]
    return {(manifest.kernel.name, manifest.launch.ordinal): path for path, manifest in launches}


def view_bytes(repro: Reproducer, name: str, state: str) -> bytes:
    """The bytes of a contiguous argument before or after the launch."""
    view = next(view for view in repro.manifest.views if view.name == name)
    count = int(np.prod(view.shape, dtype=np.int64)) * view.itemsize
    return repro.read(state, view.region, view.offset, count)


def edited(reproducer: Path, old: str, new: str, into: Path) -> Path:
    """A candidate: the reproducer's own source with one expression changed."""
    source = (reproducer / "source" / "kernel.py").read_text()
    assert source.count(old) == 1, source
    into.write_text(source.replace(old, new))
    return into


@pytest.mark.long
def test_case_02_in_place_is_scaled_once(kerncap: CommandLine, captured: Captured) -> None:
    path = captured["scale", 0]
    repro = Reproducer.open(path)
    before = np.frombuffer(view_bytes(repro, "x_ptr", "pre"), dtype=np.float32)
    after = np.frombuffer(view_bytes(repro, "x_ptr", "post"), dtype=np.float32)
    assert np.array_equal(before, np.arange(100, dtype=np.float32))
    assert np.array_equal(after, 3 * before)

    replayed = kerncap("replay", path, "-n", "3")
    assert replayed.result_line.startswith("Result: PASS"), replayed.stdout + replayed.stderr
    squared = edited(path, "x * s", "x * s * s", kerncap.folder / "squared.py")
    for command in ("replay", "verify"):
        failed = kerncap(command, path, "--candidate", squared)
        assert failed.status == 1
        assert failed.result_line.startswith("Result: FAIL")


def test_case_03_histogram_is_not_doubled(kerncap: CommandLine, captured: Captured) -> None:
    path = captured["histogram", 0]
    repro = Reproducer.open(path)
    before = np.frombuffer(view_bytes(repro, "bins_ptr", "pre"), dtype=np.int32)
    after = np.frombuffer(view_bytes(repro, "bins_ptr", "post"), dtype=np.int32)
    assert before.tolist() == [5] * 8
    assert after.sum() == 200 + 40
    assert kerncap("replay", path, "-n", "5").status == 0


def test_case_04_noop_fails_even_on_a_second_launch_into_one_output(
    kerncap: CommandLine, captured: Captured
) -> None:
    path = captured["double_into", 1]
    repro = Reproducer.open(path)
    assert view_bytes(repro, "y_ptr", "pre") == view_bytes(repro, "y_ptr", "post"), (
        "the second launch changes no byte"
    )
    original = kerncap("verify", "--json", path)
    assert original.document["result"] == "pass" and original.document["poisoned_bytes"] == 4 * 300
    noop = edited(path, "tl.store(", "if n < 0: tl.store(", kerncap.folder / "noop.py")
    done = kerncap("verify", "--json", path, "--candidate", noop)
    assert done.status == 1
    assert done.document["result"] == "fail"
    assert "1,200 bytes of y_ptr were never written" in done.document["reasons"][0]


def test_case_05_a_write_outside_the_write_set_fails(kerncap: CommandLine, captured: Captured) -> None:
    path = captured["double_into", 0]
    past_the_end = edited(path, "* 2, mask=i < n", "* 2, mask=i < n + 1", kerncap.folder / "past.py")
    done = kerncap("verify", "--json", path, "--candidate", past_the_end)
    assert done.status == 1
    assert any("outside" in reason for reason in done.document["reasons"]), done.stdout


def test_parameters_may_have_the_names_of_tritons_own(kerncap: CommandLine, captured: Captured) -> None:
    done = kerncap("replay", captured["named_as_triton_does", 0])
    assert done.result_line.startswith("Result: PASS (64 bytes identical"), done.stdout + done.stderr


@pytest.mark.long
def test_case_09_the_nth_launch_by_exact_and_regex_name(kerncap: CommandLine) -> None:
    target = kerncap.target(
        SCALE
        + DOUBLE_INTO
        + """
    x = torch.ones(8, device=DEVICE)
    y = torch.empty_like(x)
    for _ in range(5):
        scale[(1,)](x, 2, 8, BLOCK=8)
        double_into[(1,)](x, y, 8, BLOCK=8)
    """
    )
    [third] = kerncap.capture("-k", "^scale$", "--launch", "2", "--no-self-check", target=target)
    assert np.frombuffer(view_bytes(Reproducer.open(third), "x_ptr", "pre"), np.float32).tolist() == [4.0] * 8
    pair = kerncap.capture("-k", "sc.le", "--launch", "1:3", "--no-self-check", target=target, expect=2)
    firsts = sorted(
        np.frombuffer(view_bytes(Reproducer.open(path), "x_ptr", "pre"), np.float32)[0] for path in pair
    )
    assert firsts == [2.0, 4.0]


@pytest.mark.long
def test_case_12_no_arguments_means_nothing_to_compare(kerncap: CommandLine, captured: Captured) -> None:
    done = kerncap("verify", captured["nothing", 0])
    assert done.status == 5
    assert done.result_line.startswith("Result: UNDECIDED (nothing to compare: the launch writes nothing")
    assert kerncap("verify", "--strict", captured["nothing", 0]).status == 1


@pytest.mark.long
def test_case_18_a_used_folder_keeps_what_it_has(kerncap: CommandLine) -> None:
    target = kerncap.target(
        SCALE
        + """
    x = torch.full((8,), float(sys.argv[1]) if len(sys.argv) > 1 else 1.0, device=DEVICE)
    scale[(1,)](x, 2, 8, BLOCK=8)
    """
    )
    options = ("--json", "--no-self-check", "-o", "out")
    [first] = kerncap.capture("--no-self-check", target=target)
    digests = {path: path.read_bytes() for path in sorted(first.rglob("*")) if path.is_file()}
    missed = kerncap("capture", *options, "-k", "no_such_kernel", "--", sys.executable, target)
    assert missed.status == 1
    assert missed.document["captured"] == []
    assert "scale" in missed.document["reason"], "the nearest names"
    again = kerncap("capture", *options, "--", sys.executable, target, "5")
    [second] = again.document["captured"]
    assert (kerncap.folder / second).resolve() != first.resolve()
    assert {path: path.read_bytes() for path in digests} == digests
    left = {path.name for path in (kerncap.folder / "out").iterdir()}
    assert left == {first.name, Path(second).name}, "and no session folder"


@first_of(("how", "status"), [("segv", 139), ("kill", 137), ("exit", 3), ("raise", 1)])
def test_case_19_a_crash_keeps_what_was_complete(kerncap: CommandLine, how: str, status: int) -> None:
    done = kerncap(
        "capture", "--json", "--no-self-check", "-o", "out", "--launch", "0:9", "--",
        sys.executable, TARGETS / "capture_ends.py", how, "3",
    )  # fmt: skip
    assert done.status == status == done.document["target_status"]
    assert done.document["reason"] is None
    paths = [kerncap.folder / path for path in done.document["captured"]]
    values = []
    for path in paths:
        with Reproducer.open(path) as repro:
            repro.verify()
            values.append([struct.unpack("<f", view_bytes(repro, name, state)[:4])[0]
                           for name, state in (("x", "pre"), ("out", "post"))])  # fmt: skip
    assert sorted(values) == [[0.0, 0.0], [1.0, 2.0], [2.0, 4.0]]
    assert {path.name for path in (kerncap.folder / "out").iterdir()} == {path.name for path in paths}
    assert kerncap("replay", paths[-1]).status == 0


@pytest.mark.long
def test_case_19_a_launch_cut_short_leaves_no_folder(kerncap: CommandLine) -> None:
    done = kerncap(
        "capture", "--no-self-check", "-o", "out", "--launch", "0:9", "--",
        sys.executable, TARGETS / "capture_ends.py", "wild", "2",
    )  # fmt: skip
    assert done.status == 128 + 11
    assert sorted(path.name[:4] for path in (kerncap.folder / "out").iterdir()) == ["add-", "add-"]
    [line] = [line for line in done.stderr.splitlines() if "cut short" in line]
    assert "wild" in line and "killed by SIGSEGV" in line and "--on-fault" in line


@first_of(("how", "expected"), [("fork", [1, 2]), ("spawn", [3]), ("daemon", [4, 5])])
def test_case_20_children(kerncap: CommandLine, how: str, expected: list[int]) -> None:
    done = kerncap(
        "capture", "--json", "-k", "mark", "--launch", "0:4", "--no-self-check", "-o", "out", "--",
        sys.executable, TARGETS / "capture_children.py", how,
    )  # fmt: skip
    assert done.status == 0, done.stderr
    values = []
    for path in done.document["captured"]:
        with Reproducer.open(kerncap.folder / path) as repro:
            value = next(item.value for item in repro.manifest.arguments if item.name == "value")
            assert isinstance(value, schema.FloatValue)
            values.append(float.fromhex(value.value))
    assert sorted(values) == expected
    assert list((kerncap.folder / "out").glob(".*")) == [], "the session is gone"


@pytest.mark.long
def test_case_26_strided_tensors_and_odd_constexprs(kerncap: CommandLine, captured: Captured) -> None:
    path = captured["odd", 0]
    values = {argument.name: argument.value for argument in Reproducer.open(path).manifest.arguments}
    assert values["LOW"].value == "-inf"
    assert values["TYPE"].name in ("bf16", "bfloat16")
    shown = kerncap("inspect", "--json", path)
    assert shown.status == 0
    verified = kerncap("verify", path)
    assert verified.result_line.startswith("Result: PASS"), verified.stdout
    # Every second element of y is never written: poison there must not be asked of a candidate.
    wrong_gap = edited(path, "PAIR[1]", "PAIR[0]", kerncap.folder / "gap.py")
    assert kerncap("verify", path, "--candidate", wrong_gap).status == 1


@pytest.mark.long
def test_case_27_autotuned_is_pinned_to_what_ran(kerncap: CommandLine, captured: Captured) -> None:
    for ordinal, before in ((0, 0.0), (1, 1.0)):
        path = captured["bump", ordinal]
        repro = Reproducer.open(path)
        manifest = repro.manifest
        block = next(argument for argument in manifest.arguments if argument.name == "BLOCK")
        assert block.value.value == "64"
        assert manifest.launch.grid == (2, 1, 1)
        assert manifest.autotune is not None
        assert manifest.autotune.chosen == 2
        assert [config.grid for config in manifest.autotune.configs] == [(7, 1, 1), (4, 1, 1), (2, 1, 1)]
        assert np.frombuffer(view_bytes(repro, "x_ptr", "pre"), np.float32)[0] == before
        assert kerncap("verify", path).status == 0


@pytest.mark.long
def test_case_29_nan_is_reported_and_tolerances_are_honoured(
    kerncap: CommandLine, captured: Captured
) -> None:
    path = captured["double_into", 0]
    close = edited(path, "mask=i < n) * 2", "mask=i < n) * 2.000001", kerncap.folder / "close.py")
    within = kerncap("verify", path, "--candidate", close)
    assert within.result_line.startswith("Result: PASS (within tolerance"), within.stdout
    strict = kerncap("verify", path, "--candidate", close, "--rtol", "1e-9", "--atol", "0")
    assert strict.status == 1
    nan = edited(path, "mask=i < n) * 2", 'mask=i < n) * float("nan")', kerncap.folder / "nan.py")
    failed = kerncap("verify", "--json", path, "--candidate", nan, "--rtol", "1e9", "--atol", "1e9")
    assert failed.status == 1
    assert any("nan" in reason.lower() for reason in failed.document["reasons"])


def damage_flip(path: Path) -> str:
    chunks = path / "memory" / "chunks"
    data = bytearray(chunks.read_bytes())
    data[len(data) // 2] ^= 0x10
    chunks.write_bytes(data)
    return "memory/chunks"


def damage_truncate(path: Path) -> str:
    chunks = path / "memory" / "chunks"
    chunks.write_bytes(chunks.read_bytes()[:-7])
    return "memory/chunks"


def damage_size(path: Path) -> str:
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["regions"][0]["size"] = 2**60
    (path / "manifest.json").write_text(json.dumps(manifest))
    return "manifest.json"


def damage_path(path: Path) -> str:
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["source"]["file"]["path"] = "../outside.py"
    (path / "manifest.json").write_text(json.dumps(manifest))
    return "manifest.json"


def damage_version(path: Path) -> str:
    manifest = json.loads((path / "manifest.json").read_text())
    manifest["version"]["major"] = 99
    (path / "manifest.json").write_text(json.dumps(manifest))
    return "manifest.json"


def damage_syntax(path: Path) -> str:
    text = (path / "manifest.json").read_text()
    (path / "manifest.json").write_text(text[: len(text) // 2])
    return "manifest.json"


def test_case_30_damage_is_named_with_file_and_offset(kerncap: CommandLine, captured: Captured) -> None:
    path = captured["odd", 0]
    for damage in (damage_flip, damage_truncate, damage_size, damage_path, damage_version, damage_syntax):
        copy = kerncap.folder / damage.__name__
        shutil.copytree(path, copy)
        named = damage(copy)
        done = kerncap("inspect", "--json", copy)
        assert done.status == 3, (damage.__name__, done.stdout[:200], done.stderr)
        lines = done.stderr.strip().splitlines()
        assert len(lines) == 1, done.stderr
        assert named in lines[0]
        assert re.search(r"byte \d+", lines[0])


@pytest.mark.long
def test_scalars_are_kept_bit_for_bit(kerncap: CommandLine, captured: Captured) -> None:
    path = captured["keep", 0]
    values = {argument.name: argument.value for argument in Reproducer.open(path).manifest.arguments}
    assert struct.pack("<d", float.fromhex(values["f"].value)) == struct.pack("<d", 0.1)
    assert values["big"].value == str(2**40 + 1)
    assert values["flag"].value is True
    assert kerncap("verify", path).status == 0
