"""Results of judgements, and a session that gives them, for tests that need neither engine nor worker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kerncap.answer import Answer
from kerncap.api.edit.diagnostics import Diagnostic
from kerncap.api.edit.edit_result import EditResult, Times
from kerncap.replay.outcome import Compiled
from kerncap.replay.verdict_words import Verdict, fail
from kerncap.report.documents.edit_and_compare import BestSave

WRONG = (
    "out_ptr: 12 of 6,400 elements differ, first at out_ptr[3, 17]: expected 0.5, found nan; "
    "max abs nan, max rel nan"
)


def passed(number: int = 1, **more: Any) -> EditResult:
    result = EditResult(
        number, "candidate", Path("kernel.py"), "compare", Verdict(Answer.YES, "10 bytes identical")
    )
    return changed(result, **more)


def failed(number: int = 2, **more: Any) -> EditResult:
    result = EditResult(number, "candidate", Path("kernel.py"), "compare", fail(WRONG))
    return changed(result, **more)


def broken(number: int = 3) -> EditResult:
    result = EditResult(
        number, "candidate", Path("kernel.py"), "build", fail("kernel.py can't be imported: SyntaxError")
    )
    result.diagnostics = [
        Diagnostic("kernel.py", 2, 5, "SyntaxError: invalid syntax", ((1, "a"), (2, "b = = c")))
    ]
    return result


def on_device(number: int = 4) -> EditResult:
    before = Compiled(
        registers=40, spilled_bytes=0, shared_bytes=1024, occupancy=0.625, num_warps=4, grid=(64, 1, 1),
        block=(128, 1, 1), dynamic_shared_bytes=1024,
    )  # fmt: skip
    after = Compiled(
        registers=38, spilled_bytes=16, shared_bytes=2048, occupancy=0.75, num_warps=8, grid=(64, 1, 1),
        block=(256, 1, 1), dynamic_shared_bytes=2048,
    )  # fmt: skip
    times = Times(100, "device events", 0.0412, 0.0358, 0.87, 0.85, 0.89)
    best = BestSave(number=2, ratio=0.8, path="kept/0002/kernel.py")
    return passed(
        number,
        original=before,
        candidate=after,
        times=times,
        compile_ms=412.0,
        save_to_verdict_ms=84.0,
        best=best,
    )


def changed(result: EditResult, **more: Any) -> EditResult:
    for name, value in more.items():
        setattr(result, name, value)
    return result
