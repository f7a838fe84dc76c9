"""kerncap's commands for Python programs: a function for each verb, with options and results as classes.

```python
from pathlib import Path
from kerncap.api import CaptureOptions, Run, Selection, VerifyOptions, capture, verify

taken = capture(CaptureOptions(Run(("python", "train.py"), output=Path("out")), Selection(kernel="^softmax")))
for launch in taken.captured:
    result = verify(launch.path, VerifyOptions(candidate=Path("faster.py")))
    print(result.passed, result.verdict.summary)
```

- Names are loaded when they are first used: importing this package costs nothing, and never loads torch,
  Triton or a driver into the calling process. Kernels run in processes of their own.
- Paths are `pathlib.Path`; times in seconds (`_s`), milliseconds (`_ms`) or nanoseconds (`_ns`), sizes in
  bytes, shapes and strides in elements, ordinals of launches from 0.
- What goes wrong is a `KerncapError`: `UsageError` (the request), `FormatError` (the reproducer),
  `CaptureError`, `ReplayError` (it could not be carried out) and `BackendUnavailable` (something is missing
  here). A wrong result is no exception: look at `passed`.
- `as_dict()` of a result is the document that the command prints with `--json`; `kerncap schema` prints
  its schema.
- Only what is named here is public. Modules below, and names with an underscore, may change in any version.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # for type checkers and the reference; at run time each is loaded by its first use
    from kerncap.api.arm import arm
    from kerncap.api.blame import Blame, BlameOptions, blame
    from kerncap.api.capture import capture, seal_session
    from kerncap.api.compare import CompareResult, compare
    from kerncap.api.diff import DocumentDiff, ReproducerDiff, diff
    from kerncap.api.diverge import Divergence, DivergeOptions, diverge
    from kerncap.api.diverge import Side as DivergeSide
    from kerncap.api.diverge import Tolerance as DivergeTolerance
    from kerncap.api.doctor import doctor
    from kerncap.api.doctor.doctor_result import Report as DoctorReport
    from kerncap.api.edit import EditOptions, edit
    from kerncap.api.export import Exported, export
    from kerncap.api.from_core import from_core
    from kerncap.api.from_recording import Imported, from_recording
    from kerncap.api.inspect import inspect
    from kerncap.api.limits import LimitReport, limits
    from kerncap.api.listing import list_kernels
    from kerncap.api.minimize import Minimized, minimize
    from kerncap.api.pack import Packed, pack, unpack_file
    from kerncap.api.profile import ProfileResult, profile
    from kerncap.api.prove import ProveOptions, ProveResult, prove
    from kerncap.api.replay import ReplayOptions, ReplayResult, replay
    from kerncap.api.report import Report as ReportPage
    from kerncap.api.report import report
    from kerncap.api.sanitize import sanitize_reproducer, sanitize_ttir
    from kerncap.api.sanitize.program import LiveOptions, SanitizeResult, sanitize_command
    from kerncap.api.sanitize.python_call import sanitize_call
    from kerncap.api.tune import TuneOptions, tune
    from kerncap.api.tune.tune_result import TuneResult
    from kerncap.api.verify import StageResult, VerifyOptions, VerifyResult, verify
    from kerncap.capture.options import CaptureOptions, Keep, Run, Selection
    from kerncap.capture.outcome import ArmResult, CaptureResult, KernelSummary
    from kerncap.capture.seal import SealedLaunch
    from kerncap.errors import (
        BackendUnavailable,
        CaptureError,
        FormatError,
        KerncapError,
        ReplayError,
        UsageError,
    )
    from kerncap.format import Reproducer
    from kerncap.replay.verdict_words import Verdict
    from kerncap.report.documents.replay import Timing
    from kerncap.sanitizer.findings import Finding, LaunchReport
    from kerncap.sanitizer.options import Options as SanitizeOptions

__all__ = [
    "ArmResult", "BackendUnavailable", "Blame", "BlameOptions", "CaptureError", "CaptureOptions",
    "CaptureResult", "CompareResult", "DivergeOptions", "DivergeSide", "DivergeTolerance", "Divergence",
    "DoctorReport", "DocumentDiff", "EditOptions", "Exported", "Finding", "FormatError", "Imported", "Keep",
    "KerncapError", "KernelSummary", "LaunchReport", "LimitReport", "LiveOptions", "Minimized", "Packed",
    "ProfileResult", "ProveOptions", "ProveResult", "ReplayError", "ReplayOptions", "ReplayResult",
    "ReportPage", "Reproducer", "ReproducerDiff", "Run", "SanitizeOptions", "SanitizeResult", "SealedLaunch",
    "Selection", "StageResult", "Timing", "TuneOptions", "TuneResult", "UsageError", "Verdict",
    "VerifyOptions", "VerifyResult", "arm", "blame", "capture", "compare", "diff", "diverge", "doctor",
    "edit", "export", "from_core", "from_recording", "inspect", "limits", "list_kernels", "minimize", "pack",
    "profile", "prove", "replay", "report", "sanitize_call", "sanitize_command", "sanitize_reproducer",
    "sanitize_ttir", "seal_session", "tune", "unpack_file", "verify",
]  # fmt: skip

# module -> what of it is public; `a as b` is called b here.
_PUBLIC = {
    "kerncap.api.arm": ("arm",),
    "kerncap.api.blame": ("Blame", "BlameOptions", "blame"),
    "kerncap.api.capture": ("capture", "seal_session"),
    "kerncap.api.compare": ("CompareResult", "compare"),
    "kerncap.api.diff": ("DocumentDiff", "ReproducerDiff", "diff"),
    "kerncap.api.diverge": (
        "DivergeOptions",
        "Divergence",
        "Side as DivergeSide",
        "Tolerance as DivergeTolerance",
        "diverge",
    ),
    "kerncap.api.doctor": ("doctor",),
    "kerncap.api.doctor.doctor_result": ("Report as DoctorReport",),
    "kerncap.api.edit": ("EditOptions", "edit"),
    "kerncap.api.export": ("Exported", "export"),
    "kerncap.api.from_core": ("from_core",),
    "kerncap.api.from_recording": ("Imported", "from_recording"),
    "kerncap.api.inspect": ("inspect",),
    "kerncap.api.limits": ("LimitReport", "limits"),
    "kerncap.api.listing": ("list_kernels",),
    "kerncap.api.minimize": ("Minimized", "minimize"),
    "kerncap.api.pack": ("Packed", "pack", "unpack_file"),
    "kerncap.api.profile": ("ProfileResult", "profile"),
    "kerncap.api.prove": ("ProveOptions", "ProveResult", "prove"),
    "kerncap.api.replay": ("ReplayOptions", "ReplayResult", "replay"),
    "kerncap.api.report": ("Report as ReportPage", "report"),
    "kerncap.api.sanitize": ("sanitize_reproducer", "sanitize_ttir"),
    "kerncap.api.sanitize.python_call": ("sanitize_call",),
    "kerncap.api.sanitize.program": ("LiveOptions", "SanitizeResult", "sanitize_command"),
    "kerncap.api.tune": ("TuneOptions", "tune"),
    "kerncap.api.tune.tune_result": ("TuneResult",),
    "kerncap.api.verify": ("StageResult", "VerifyOptions", "VerifyResult", "verify"),
    "kerncap.capture.options": ("CaptureOptions", "Keep", "Run", "Selection"),
    "kerncap.capture.outcome": ("ArmResult", "CaptureResult", "KernelSummary"),
    "kerncap.capture.seal": ("SealedLaunch",),
    "kerncap.errors": (
        "BackendUnavailable",
        "CaptureError",
        "FormatError",
        "KerncapError",
        "ReplayError",
        "UsageError",
    ),
    "kerncap.format": ("Reproducer",),
    "kerncap.replay.verdict_words": ("Verdict",),
    "kerncap.report.documents.replay": ("Timing",),
    "kerncap.sanitizer.options": ("Options as SanitizeOptions",),
    "kerncap.sanitizer.findings": ("Finding", "LaunchReport"),
}


class _Loaded:
    """A public name, loaded when it is read.

    It is a data descriptor, because the import system writes each submodule into its package: without it,
    `kerncap.api.capture` would be the function at first, and the module of that name once it is imported.
    """

    def __init__(self, module: str, name: str) -> None:
        self._module, self._name = module, name

    def __get__(self, package: object, owner: type) -> Any:
        return getattr(importlib.import_module(self._module), self._name)

    def __set__(self, package: object, submodule: object) -> None:
        pass


def _public() -> dict[str, _Loaded]:
    found = {}
    for module, names in _PUBLIC.items():
        for each in names:
            name, _, shown = each.partition(" as ")
            found[shown or name] = _Loaded(module, name)
    return found


class _Package(ModuleType):
    """This package, with its public names as attributes of the class."""

    def __dir__(self) -> list[str]:
        return list(__all__)


for _name, _found in _public().items():
    setattr(_Package, _name, _found)
sys.modules[__name__].__class__ = _Package
