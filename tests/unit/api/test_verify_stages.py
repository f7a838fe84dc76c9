"""Parts of verify's stages that no engine is needed for."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, compute_sanitizer, verify
from kerncap.api.verify.derived_launch import GUARD_BYTES, Layout, NotDerivable, derive
from kerncap.api.verify.other_sizes import sizes
from kerncap.api.verify.padded_rows import padded
from kerncap.api.verify.wider_types import derive_wide, multiplies_in_tf32, reduces, widened
from kerncap.format import Reproducer, schema
from kerncap.replay.choose_engine import Choice
from kerncap.replay.worker import protocol, typed_json
from kerncap.replay.worker.protocol import Compiled, Ended, Hello, Loaded
from tests.unit.replay import build
from tests.unit.replay.build import Launch
from tests.unit.replay.resident import candidate

COPY = """
@triton.jit
def copy(x_ptr, y_ptr, rows, columns, x_stride, y_stride, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + tl.program_id(0) * x_stride + i, mask=i < columns)
    tl.store(y_ptr + tl.program_id(0) * y_stride + i, x.to(tl.float32), mask=i < columns)
"""


def copy(dtype: Any = np.float32) -> Launch:
    x = np.arange(12, dtype=dtype).reshape(3, 4)
    launch = Launch(COPY, "copy", grid=(3, 1, 1)).tensor("x_ptr", x)
    launch.tensor("y_ptr", np.zeros((3, 4), np.float32), x.astype(np.float32))
    for name, value in (("rows", 3), ("columns", 4), ("x_stride", 4), ("y_stride", 4)):
        launch.argument(name, value)
    return launch.constexpr("BLOCK", 4)


def values(reproducer: Reproducer, number: int, state: Any) -> Any:
    view = reproducer.manifest.views[number]
    data = reproducer.read(state, view.region, 0, reproducer.manifest.regions[view.region].size)
    strides = tuple(s * view.itemsize for s in view.strides)
    return np.ndarray(tuple(view.shape), view.dtype, data, view.offset, strides).astype(np.float64)


def test_wider_rows_and_another_beginning_keep_all_values(tmp_path: Path) -> None:
    with Reproducer.open(copy().seal(tmp_path)) as captured:
        layout = padded(captured.manifest)
        assert layout.strides == {0: (8, 1), 1: (8, 1)}
        assert layout.arguments == {"x_stride": 8, "y_stride": 8}, "and columns, which is 4 too, is none"
        layout.shift = 1
        with Reproducer.open(derive(captured, tmp_path, layout)) as derived:
            assert [view.offset % 256 for view in derived.manifest.views] == [4, 4]
            for number in (0, 1):
                for state in ("pre", "post"):
                    before, after = (values(r, number, state) for r in (captured, derived))
                    assert (before == after).all()
            assert derived.manifest.regions[0].size == GUARD_BYTES + 4 + (2 * 8 + 4) * 4 + GUARD_BYTES


def test_equal_strides_of_two_tensors_become_different_ones(tmp_path: Path) -> None:
    with Reproducer.open(copy().seal(tmp_path)) as captured:
        layout = padded(captured.manifest, apart=True)
        assert layout.strides == {0: (8, 1), 1: (12, 1)}
        assert layout.arguments == {"x_stride": 8, "y_stride": 12}
    launch = copy()
    launch.argument("z_stride", 4)
    with Reproducer.open(launch.seal(tmp_path)) as captured:
        assert padded(captured.manifest, apart=True).strides == {}, "nothing says which is whose"
        assert padded(captured.manifest).arguments == dict.fromkeys(("x_stride", "y_stride", "z_stride"), 8)


def test_a_stride_in_place_of_another_one_fails(tmp_path: Path) -> None:
    file = candidate(tmp_path, COPY.replace("* x_stride", "* y_stride"))
    result = verify(copy().seal(tmp_path), VerifyOptions(candidate=file, stages=("shapes",)))
    assert result.verdict.answer is Answer.NO
    assert "on padded rows (x_stride = 8, y_stride = 12) at other addresses: " in result.verdict.line


def test_strides_in_another_order_than_the_tensors_stay_equal(tmp_path: Path) -> None:
    """The captured kernel does not allow for the first layout, and then the second one is tried."""
    launch = copy()
    launch.arguments[-3:-1] = launch.arguments[-3:-1][::-1]
    file = candidate(tmp_path, COPY.replace("x.to(tl.float32)", "x * 1.0"))
    result = verify(launch.seal(tmp_path), VerifyOptions(candidate=file, stages=("shapes",)))
    assert result.passed, result.verdict
    strides = "y_stride = 8, x_stride = 8"
    assert f"as the captured kernel on padded rows ({strides}) at other addresses" in result.stages[-1].shown


def test_a_wide_launch_has_the_same_values_in_float64(tmp_path: Path) -> None:
    with Reproducer.open(copy(np.float16).seal(tmp_path)) as captured:
        with Reproducer.open(derive_wide(captured, tmp_path)) as wide:
            assert [view.dtype for view in wide.manifest.views] == ["float64", "float64"]
            assert (values(wide, 0, "pre") == values(captured, 0, "pre")).all()
            text = wide.source_text() or ""
            assert "x.to(tl.float64)" in text and "float32" not in text


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("y = x.to(tl.int32, bitcast=True)", "line 2: it looks at the bits of a number"),
        ("y = tl.rand(1, i)", "line 2: it draws random numbers"),
        ("y = tl.math.div_rn(x, x)", "line 2: it calls div_rn, which is float32's"),
    ],
)
def test_what_is_bound_to_a_width_is_named(line: str, why: str) -> None:
    with pytest.raises(NotDerivable, match=why):
        widened(f"def f(x):\n    {line}\n")


def test_types_are_replaced_where_they_stand() -> None:
    text = "ö = tl.zeros((4,), dtype=tl.float32)  # float32\ny = x.to(tl.bfloat16) + tl.float16(1)\n"
    wide = "ö = tl.zeros((4,), dtype=tl.float64)  # float32\ny = x.to(tl.float64) + tl.float64(1)\n"
    assert widened(text) == wide


def test_what_adds_up_is_known() -> None:
    assert not reduces(build.ADD)
    assert reduces("def f(x):\n    return tl.sum(x, axis=0)\n")
    assert reduces("def f(x):\n    for k in range(9):\n        a += tl.load(x + k)\n")
    assert multiplies_in_tf32("tl.dot(a, b)") and not multiplies_in_tf32(
        'tl.dot(a, b, input_precision="ieee")'
    )


def test_sizes_are_lowered_together_and_strides_are_kept(tmp_path: Path) -> None:
    with Reproducer.open(copy().seal(tmp_path)) as captured:
        found = [size.name for size in sizes(captured.manifest)]
    assert found == ["rows = 2", "rows = 1", "columns = 3", "columns = 1"]


def test_pointers_can_not_be_moved(tmp_path: Path) -> None:
    table = copy().tensor("table", np.array([build.BASE + 8], dtype=np.int64))
    bare = copy().argument("p", schema.PointerValue(address=build.BASE, dtype="float32"))
    for launch, why in ((table, "table holds pointers"), (bare, "p is a bare pointer")):
        with Reproducer.open(launch.seal(tmp_path)) as captured, pytest.raises(NotDerivable, match=why):
            derive(captured, tmp_path, Layout())


REPORT = """\
========= COMPUTE-SANITIZER
========= Invalid __global__ read of size 4 bytes
=========     at copy+0x120 in kernel.py:12
=========     by thread (96,0,0) in block (5,0,0)
=========
========= Invalid __global__ read of size 4 bytes
=========     at copy+0x120 in kernel.py:12
========= Invalid __global__ read of size 4 bytes
=========     at copy+0x150
========= Barrier error detected. Divergent thread(s) in warp.
========= ERROR SUMMARY: 4 errors
"""


def test_reports_of_compute_sanitizer_are_counted() -> None:
    assert compute_sanitizer.parse(REPORT) == [
        "Invalid __global__ read of size 4 bytes at copy+0x120 in kernel.py:12, at copy+0x150 (3 times)",
        "Barrier error detected. Divergent thread(s) in warp.",
    ]
    many = "".join(f"========= Invalid access\n=========     at k+{n:#x}\n" for n in range(1, 6))
    assert compute_sanitizer.parse(many) == [
        "Invalid access at k+0x1, at k+0x2, at k+0x3 and 2 places more (5 times)"
    ]
    assert compute_sanitizer.parse("========= COMPUTE-SANITIZER\n========= ERROR SUMMARY: 0 errors\n") == []


@pytest.mark.parametrize(
    ("error", "call", "told"),
    [
        ('CUDA_ERROR_INVALID_VALUE (error 1) due to "invalid argument"', "cuFuncGetParamInfo", False),
        ('cudaErrorInvalidValue (error 1) due to "invalid argument"', "cudaFuncGetAttributes", False),
        ('CUDA_ERROR_INVALID_VALUE (error 1) due to "invalid argument"', "cuLaunchKernelEx", True),
        ('CUDA_ERROR_LAUNCH_FAILED (error 719) due to "unspecified"', "cuStreamSynchronize", True),
        ('cudaErrorIllegalAddress (error 700) due to "an illegal access"', "cudaMemcpy", True),
    ],
)
def test_what_the_worker_asked_for_in_vain_is_no_error_of_the_launch(
    error: str, call: str, told: bool
) -> None:
    line = f"Program hit {error} on CUDA API call to {call}."
    report = f"========= COMPUTE-SANITIZER\n========= {line}\n========= ERROR SUMMARY: 1 error\n"
    assert compute_sanitizer.parse(report) == ([line] if told else [])


class _Program:
    """A compute-sanitizer of a test's own: writes its report, runs what it is given, or does neither."""

    def __init__(self, folder: Path, report: str, replies: bytes) -> None:
        self.path = folder / "compute-sanitizer"
        self.path.write_text(
            f"#!{sys.executable}\nimport sys\nargs = sys.argv[1:]\n"
            f"open(args[args.index('--log-file') + 1], 'w').write({report!r})\n"
            f"open(args[-1], 'wb').write({replies!r})\n"
        )
        self.path.chmod(0o755)


STARTED = typed_json.line(Hello()) + protocol.reply(Loaded(Compiled())) + protocol.reply(None)
RAN = STARTED + protocol.reply(Ended("ok"))
CLEAN = "========= ERROR SUMMARY: 0 errors\n"


@pytest.mark.parametrize(
    ("report", "replies", "errors", "why_not"),
    [
        (CLEAN, RAN, [], ""),
        (REPORT, RAN, 2, ""),
        ("========= COMPUTE-SANITIZER\n", RAN, [], "its report is incomplete"),
        (CLEAN, b"", [], "the launch was not run: it printed nothing"),
        (CLEAN, STARTED, [], "the launch was not run: it printed nothing"),
        (CLEAN, typed_json.line(Hello(refused="no room")), [], "did not start under memcheck: no room"),
    ],
)
def test_only_a_launch_that_ran_and_a_whole_report_show_anything(
    tmp_path: Path, report: str, replies: bytes, errors: Any, why_not: str
) -> None:
    program = _Program(tmp_path, report, replies)
    with Reproducer.open(copy().seal(tmp_path)) as reproducer:
        choice = Choice(sys.executable, "jit", "cuda", 0)
        case = SimpleNamespace(
            reproducer=reproducer, engine=SimpleNamespace(choice=choice), options=VerifyOptions()
        )
        found, why = compute_sanitizer._said(case, str(program.path), None, "memcheck")  # type: ignore[arg-type]
    assert len(found) == errors if isinstance(errors, int) else list(found) == errors
    assert why_not in why and bool(why) == bool(why_not)
