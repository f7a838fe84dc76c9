"""`doctor -- CMD`: run a program, capture nothing, report for each of its processes what could be seen.

What the shims and the hook said of themselves is compared with what the processes had loaded: where a GPU's
library is there and the shim is not, launches were missed, and there is a reason for it.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kerncap import env, scratch
from kerncap.api.doctor.processes import Seen, Watcher
from kerncap.capture.process_log import FOLDER, ProcessLog
from kerncap.log import one_line
from kerncap.report.documents.doctor import DoctorProgramDocument, ProgramProcess

_MARKS = ("python", "triton", "cuda", "hip", "rocprofiler")  # of the session: docs/session.md
_HOOK = "Triton hook"
_MOST_ARGUMENT = 200
_CLEARED = "its environment was cleared by its parent (no KERNCAP_SESSION in it)"


@dataclass(frozen=True, kw_only=True)
class ProgramReport:
    """What kerncap could see of a program; ``missed`` are sentences, each with its process and cause."""

    command: tuple[str, ...]
    target_status: int | None  # None: it could not be started
    kernels: int
    launches: int
    processes: tuple[ProgramProcess, ...]
    missed: tuple[str, ...]
    next_steps: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def works(self) -> bool:
        """Whether launches were seen and none is known to have been missed."""
        return self.launches > 0 and not self.missed

    @property
    def routes(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for one in self.processes:
            total.update(one.routes)
        return dict(total.most_common())

    def as_dict(self) -> dict[str, Any]:
        """The document of ``kerncap doctor --json -- CMD``; nothing private in it."""
        from kerncap.api.doctor.bug_report_facts import tidy

        document = DoctorProgramDocument(
            result="ok" if self.works else "missing", routes=self.routes, **vars(self)
        )
        return dict(tidy(document.as_dict()))


def examine(command: Sequence[str], stdout_to_stderr: bool = False) -> ProgramReport:
    """Run ``command``, its output untouched, and say what of it could be seen. Captures nothing."""
    from kerncap.api.capture import capture
    from kerncap.capture.options import CaptureOptions, Run

    with scratch.temporary("doctor") as folder:
        run = Run(
            command=tuple(command), output=Path(folder, "out"), list_only=True, self_check=False,
            keep_session=True, stdout_to_stderr=stdout_to_stderr,
        )  # fmt: skip
        watcher = Watcher(os.getpid())
        watcher.start()
        try:
            result = capture(CaptureOptions(run))
        finally:
            seen = watcher.stop()
        session = result.kept_session
        logs = _logs(session) if session is not None else []
        marks = _marked(session) if session is not None else {}
    return _report(tuple(command), result, seen, logs, marks)


def _logs(session: Path) -> list[ProcessLog]:
    """What each process of the session said."""
    found = []
    for path in sorted(session.iterdir()):
        match = FOLDER.match(path.name)
        if match and path.is_dir() and not path.is_symlink():
            log = ProcessLog(path, int(match[1]))
            log.read_new()
            found.append(log)
    return found


def _marked(session: Path) -> dict[int, set[str]]:
    """By process the marks that it left: a shim was called, the hook was started."""
    found: dict[int, set[str]] = {}
    for path in session.iterdir():
        kind, _, pid = path.name.partition("-")
        if kind in _MARKS and pid.isdigit():
            found.setdefault(int(pid), set()).add(kind)
    return found


def _report(
    command: tuple[str, ...],
    result: Any,
    seen: Iterable[Seen],
    logs: list[ProcessLog],
    marks: dict[int, set[str]],
) -> ProgramReport:
    processes = _known(seen, logs)
    found = [
        _process(one, [log for log in logs if log.pid == one.pid], marks.get(one.pid, set()))
        for one in processes
    ]
    missed = [f"process {one.pid} ({one_line(one.name, 60)}) {text}" for one in found for text in one.missed]
    launches = result.launches
    notes = [] if launches or missed else [result.reason or "no launch was seen"]
    if result.target.pid is None:
        notes = [result.target.error or "it could not be started"]
    return ProgramReport(
        command=command, target_status=None if result.target.pid is None else result.target.status,
        kernels=sum(kernel.counts.launches > 0 for kernel in result.kernels), launches=launches,
        processes=tuple(found), missed=tuple(missed), next_steps=tuple(_steps(missed, result)),
        notes=tuple(notes),
    )  # fmt: skip


def _known(seen: Iterable[Seen], logs: Iterable[ProcessLog]) -> list[Seen]:
    """The processes that were met, and those that said something of themselves, which they know better."""
    processes = {one.pid: one for one in seen}
    for log in logs:  # it may have been too short to be met, or was met before it became what it ran
        one = processes.setdefault(log.pid, Seen(log.pid, 0))
        if log.process is not None and log.process.argv:
            one.argv = tuple(log.process.argv)
            one.executable = log.process.executable or one.argv[0]
    return list(processes.values())


def _process(one: Seen, logs: list[ProcessLog], marks: set[str]) -> ProgramProcess:
    shims = {log.process.shim for log in logs if log.process is not None}
    live = []
    for shim, name in (("cuda", "CUDA shim"), ("hip", "HIP shim")):
        if shim in marks or shim in shims:
            live.append(name)
    if "triton" in shims or "triton" in marks or "python" in marks:
        live.append(_HOOK)
    routes: Counter[str] = Counter()
    hooked = {seen.kernel for log in logs if not log.is_native for seen in log.seen.values()}
    launches, kernels = 0, set()
    for log in logs:
        for name, counts in (log.counts.kernels if log.counts is not None else {}).items():
            if log.is_native and name in hooked:  # the hook's, which counted it too
                routes.update(_routes(counts.rows, ""))
                continue
            mode = next((s.mode for s in log.seen.values() if s.qualified_name == name), "")
            routes.update(_routes(counts.rows, f"Triton ({mode})" if mode and not log.is_native else ""))
            launches += counts.launches
            kernels.add(name)
    argv = tuple(env.hide_home(word)[:_MOST_ARGUMENT] for word in one.argv)
    name = os.path.basename(one.argv[0] if one.argv else one.executable) or f"pid {one.pid}"
    libraries = tuple(sorted(one.libraries - {"CUDA shim", "HIP shim"}))
    missed = tuple(_missed(one, live, marks))
    if "rocprofiler" in marks:
        live[live.index("HIP shim")] = "HIP shim, by rocprofiler-register"
    return ProgramProcess(
        pid=one.pid, parent=one.parent, name=name, argv=argv, libraries=libraries, live=tuple(live),
        launches=launches, kernels=len(kernels), routes=dict(routes), missed=missed,
    )  # fmt: skip


def _routes(rows: Iterable[Any], otherwise: str) -> Counter[str]:
    """Launches by route; a graph's nodes are one route."""
    found: Counter[str] = Counter()
    for row in rows:
        route = (row.route or otherwise).partition(" node ")[0].partition(" queue ")[0]
        if route:
            found[route] += row.launches
    return found


def _missed(one: Seen, live: list[str], marks: set[str]) -> list[str]:
    """What kerncap could not see in a process, with the cause."""
    found = []
    for library, shim, path in (
        ("libcuda", "CUDA shim", env.cuda_shim()), ("ROCr", "HIP shim", env.hip_shim())
    ):  # fmt: skip
        if library in one.libraries and shim not in live:
            found.append(f"loaded {library} and the {shim} saw nothing of it: {_cause(one, shim, path)}")
    if "Triton" in one.libraries and "python" not in marks:
        found.append(f"imported Triton and the hook was not started in it: {_python_cause(one)}")
    return found


def _cause(one: Seen, shim: str, path: Path | None) -> str:
    if path is None:
        return "it is not in this installation"
    if shim == "HIP shim" and "rocprofiler-register" in one.libraries and one.preload is False:
        return (
            "ROCr skips HSA_TOOLS_LIB, because another tool is registered with rocprofiler-register, "
            "and LD_PRELOAD was dropped"
        )
    if one.problem is not None:
        return f"the program {one.problem}"
    if shim in one.libraries:
        if shim == "HIP shim":
            return "it is loaded and ROCr rejected it as a tool (HSA_TOOLS_REPORT_LOAD_FAILURE=1 shows why)"
        return "it is loaded and no call came through it: none was made, or only in an unknown way"
    if one.session is False:
        return _CLEARED
    if one.preload is False:
        return "LD_PRELOAD was dropped from its environment by its parent"
    return "the loader did not load it, or the process ended before it did"


def _python_cause(one: Seen) -> str:
    flag = next(
        (word for word in one.argv[1:3] if word.startswith("-") and set(word[1:3]) & set("IES")), None
    )
    if flag:
        return f"`{flag}` makes Python ignore PYTHONPATH or sitecustomize"
    if one.session is False:
        return _CLEARED
    if one.pythonpath is False:
        return "PYTHONPATH was replaced by its parent"
    return "it ignores PYTHONPATH or sitecustomize, or ended too early"


def _steps(missed: Sequence[str], result: Any) -> Iterable[str]:
    """What to do about it, once each."""
    text = " ".join(missed)
    if "not in this installation" in text:
        yield "install the manylinux wheel, or in a checkout: make shims"
    if "statically" in text or "setuid" in text or "capabilities" in text or "other rights" in text:
        yield "run a dynamically linked copy of it, with no setuid bit: cp PROGRAM . && ./PROGRAM"
    if (
        "environment was cleared" in text
        or "LD_PRELOAD was dropped" in text
        or "PYTHONPATH was replaced" in text
    ):
        names = "KERNCAP_SESSION, LD_PRELOAD, CUDA_INJECTION64_PATH, HSA_TOOLS_LIB, PYTHONPATH"
        yield f"make its parent pass these on: {names}"
    if "makes Python ignore" in text:
        yield "run the program without that flag"
    if "HSA_TOOLS_REPORT" in text:
        yield "HSA_TOOLS_REPORT_LOAD_FAILURE=1 kerncap doctor -- CMD shows what ROCr says"
    if not missed and not result.launches:
        yield "kerncap doctor --self-test says whether this machine can capture at all"
