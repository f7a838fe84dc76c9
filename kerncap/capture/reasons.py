"""Why nothing was captured: always one cause, with what to do about it."""

from __future__ import annotations

import difflib
import os
import re
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kerncap import env, log
from kerncap.capture.options import CaptureOptions
from kerncap.capture.outcome import KernelSummary
from kerncap.capture.payloads import KernelCounts
from kerncap.capture.process_log import ProcessLog
from kerncap.capture.program_loader import asked_loader
from kerncap.format.contract import word

MAX_NAMES = 5
KFD = "/dev/kfd"


@dataclass(frozen=True)
class Started:
    """How many Python processes of the session the hook was in, how many imported Triton, and in how many
    processes, of whatever language, a shim was live: the CUDA driver was called, ROCr took its tool.
    ``uncalled``: ended with ROCr and the HIP shim loaded, and ROCr never took it."""

    python: int = 0
    triton: int = 0
    cuda: int = 0
    hip: int = 0
    uncalled: int = 0

    @classmethod
    def of(cls, folder: Path) -> Started:
        """Counted by the empty files ``python-<pid>`` and so on of the session."""
        try:
            names = os.listdir(folder)
        except OSError:
            return cls()
        kinds = ("python", "triton", "cuda", "hip", "uncalled")
        return cls(**{kind: sum(name.startswith(f"{kind}-") for name in names) for kind in kinds})


_ISOLATED = re.compile(r"^-[A-Za-z]*[IESs]")


def explain_nothing(
    options: CaptureOptions,
    processes: Sequence[ProcessLog],
    kernels: Sequence[KernelSummary],
    failed: Sequence[str],
    started: Started,
) -> str:
    """One sentence or two: the most specific cause that the session's records support."""
    if failed:
        return failed[0] + (f" (and {len(failed) - 1} more)" if len(failed) > 1 else "")
    hooked = [process for process in processes if process.process is not None]
    if not hooked:
        return _nobody(options, started)
    launches = sum(kernel.counts.launches for kernel in kernels)
    if not launches:
        return _uncounted(kernels) if kernels else _no_launches(hooked)
    total: KernelCounts = sum((kernel.counts for kernel in kernels), KernelCounts())
    if options.run.dormant and set(_nonzero(total.filtered)) == {word.filter.dormant}:
        return f"nothing was armed while the program ran ({total.launches} launches); arm it with kerncap arm"
    return _filtered(options, kernels, total, processes)


def _nobody(options: CaptureOptions, started: Started) -> str:
    """No process has said a word: nothing was launched where something could have seen it."""
    if not {word.backend.cuda, word.backend.hip} & set(options.run.backends):
        return _not_hooked(options.run.command, started)
    live = [
        text
        for text in (
            f"{_count(started.cuda, 'process')} called the CUDA driver" if started.cuda else "",
            f"{_count(started.hip, 'process')} started ROCr" if started.hip else "",
        )
        if text
    ]
    if live:
        return f"no kernel was launched, though {' and '.join(live)}"
    if started.uncalled:
        return (
            f"{_count(started.uncalled, 'process')} loaded ROCr, which did not call the HIP shim: it was "
            "never initialised, or takes tools in a way that kerncap does not know (kerncap doctor -- CMD)"
        )
    barrier = _barrier(options.run.command)
    if barrier:
        return barrier
    if options.run.backends == (word.backend.hip,):
        return _no_rocr()
    if env.cuda_shim() is None and env.hip_shim() is None:
        hint = "only Triton kernels can be seen: the CUDA shim is not in this installation (kerncap doctor)"
        said = (
            _not_hooked(options.run.command, started)
            if word.backend.triton in options.run.backends
            else "nothing was hooked"
        )
        return f"{said}; {hint}"
    if word.backend.triton not in options.run.backends:
        return "no process called the CUDA driver"
    # Which of them is in this installation is what the shims' absence can be blamed on.
    calls = [
        text
        for shim, text in ((env.cuda_shim(), "called the CUDA driver"), (env.hip_shim(), "started ROCr"))
        if shim is not None
    ]
    nobody = f"no process {' or '.join(calls)}"
    if started.python or started.triton:
        return f"{_not_hooked(options.run.command, started)}; {nobody} either"
    return f"{nobody}; {_not_hooked(options.run.command, started)}"


def _no_rocr() -> str:
    """Why ROCr may not have taken the shim as its tool, the surest cause first."""
    if env.hip_shim() is None:
        return "nothing was hooked: the HIP shim is not in this installation (kerncap doctor)"
    nobody = "no process started ROCr with the HIP shim as its tool"
    if not os.path.exists(KFD):
        return f"{nobody}: there is no {KFD} here (no AMD GPU, or its driver is not loaded)"
    if not os.access(KFD, os.R_OK | os.W_OK):
        return f"{nobody}: this user may not open {KFD} (groups render and video)"
    return (
        f"{nobody}: the program uses no HIP, clears its environment, or its ROCr takes no tools "
        "(HSA_TOOLS_REPORT_LOAD_FAILURE=1 shows the reason)"
    )


def _barrier(command: Sequence[str]) -> str | None:
    """Why the loader would put nothing into this program; None if it does, or nobody can tell."""
    path = shutil.which(command[0])
    if path is None:
        return None
    try:
        special = os.stat(path).st_mode & (stat.S_ISUID | stat.S_ISGID)
    except OSError:
        return None
    if special:
        return f"{command[0]} runs with other rights than yours (setuid): the system drops LD_PRELOAD for it"
    if asked_loader(Path(path)) == "":
        return f"{command[0]} is linked statically: nothing can be preloaded into it"
    return None


def _not_hooked(command: Sequence[str], started: Started) -> str:
    if started.triton:
        return f"no Triton kernel was launched, though {_processes(started.triton)} imported Triton"
    if started.python:
        return f"no Triton in the program: {_processes(started.python)} ran, and none imported it"
    flag = _isolating_flag(command)
    if flag:
        return (
            f"no Python process could be hooked: `{flag}` makes Python ignore PYTHONPATH or sitecustomize; "
            "run the program without it"
        )
    return (
        "no Python process was hooked: the program starts no Python, clears PYTHONPATH, "
        "or runs Python with -I, -E or -S"
    )


def _isolating_flag(command: Sequence[str]) -> str | None:
    if not os.path.basename(command[0]).startswith("python"):
        return None
    for part in command[1:]:
        if not part.startswith("-") or part in ("-c", "-m", "-"):
            return None
        if _ISOLATED.match(part):
            return part
    return None


def _no_launches(hooked: Sequence[ProcessLog]) -> str:
    versions: dict[str, str] = {}
    for process in hooked:
        packages: Mapping[str, str | None] = process.process.packages if process.process is not None else {}
        versions.update({name: version for name, version in packages.items() if version})
    shims = [process.process.shim for process in hooked if process.process is not None and process.is_native]
    if shims:
        library = {"cuda": "the CUDA driver", "hip": "ROCr"}
        told = (
            f"{_count(shims.count(each), 'process')} with {library.get(each, each)}"
            for each in dict.fromkeys(shims)
        )
        return f"no kernel was launched ({', '.join(told)})"
    triton = f"Triton {versions['triton']}" if "triton" in versions else "Triton"
    return f"no Triton kernel was launched ({triton}, {_processes(len(hooked))})"


def _uncounted(kernels: Sequence[KernelSummary]) -> str:
    names = sorted({kernel.name for kernel in kernels})
    return f"the process was killed before it reported its launches; kernels seen: {_shown(names)}"


def _shown(names: Sequence[str]) -> str:
    return ", ".join(names[:MAX_NAMES]) + (", …" if len(names) > MAX_NAMES else "")


def _processes(count: int) -> str:
    return _count(count, "Python process")


def _count(count: int, noun: str) -> str:
    return f"one {noun}" if count == 1 else f"{count} {noun}es"


def _filtered(
    options: CaptureOptions,
    kernels: Sequence[KernelSummary],
    total: KernelCounts,
    processes: Sequence[ProcessLog],
) -> str:
    """The last filter that something reached is the cause: what fell earlier was not meant."""
    chosen = options.selection
    by = {name: count for name, count in total.filtered.items() if count and name != word.filter.dormant}
    names_only = [kernel for kernel in kernels if set(_nonzero(kernel.counts.filtered)) - {word.filter.name}]
    missing = sorted(name for name in by if name.startswith(f"{word.filter.where}: "))
    if set(by) == {word.filter.rank}:
        ranks = sorted({str(each.rank) for each in processes if each.rank is not None}, key=int)
        found = (
            f"ranks {', '.join(ranks)}"
            if ranks
            else "no rank (no RANK, OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID)"
        )
        wanted = ",".join(map(str, chosen.ranks or ()))
        return f"--rank {wanted}: no process of it launched a kernel; the processes that did have {found}"
    if chosen.kernel and not names_only and not total.matched:
        return _no_such_name(chosen.kernel, kernels)
    if by.get(word.filter.ordinal):
        if chosen.graph is not None:
            return _no_such_graph(chosen.graph, chosen.graph_skip, processes)
        return _by_ordinal(chosen.launch, kernels, by[word.filter.ordinal])
    if missing or by.get(word.filter.where):
        detail = f" ({'; '.join(missing[:MAX_NAMES])})" if missing else ""
        count = by.get(word.filter.where, 0) + sum(by[name] for name in missing)
        return f"--where filtered out all {count} launches that it saw{detail}"
    if by.get(word.filter.range):
        return (
            f"--range {chosen.range!r} matches no NVTX range of any of {by[word.filter.range]} "
            "launches (kerncap list --by range shows them)"
        )
    if chosen.when and total.matched:
        shown = "a non-finite value" if chosen.when == word.when.nonfinite else "a different result"
        return f"none of {total.matched} launches showed {shown}"
    if chosen.on_fault and total.matched:
        return f"none of {total.matched} launches faulted"
    rest = {name: count for name, count in by.items() if name != word.filter.name}
    if chosen.is_default and set(rest) == {word.filter.no_source} and any(each.is_native for each in kernels):
        return _without_source(options, kernels)
    if set(rest) == {word.filter.autotuner}:
        return (
            f"all {rest[word.filter.autotuner]} launches were the autotuner's own measurements, "
            "which are never captured; the program itself launched nothing"
        )
    if rest:
        listing = ", ".join(f"{name}: {count}" for name, count in sorted(rest.items(), key=lambda p: -p[1]))
        return f"all launches were filtered out ({listing})"
    if total.filtered.get(word.filter.dormant):
        return f"all {total.launches} launches came before it was armed"
    return f"{total.launches} launches were seen and none was chosen"


def _by_ordinal(launch: tuple[int, int] | None, kernels: Sequence[KernelSummary], count: int) -> str:
    if launch is None:
        return (
            f"{count} launches came after those that were chosen, and of these none was recorded to its end"
        )
    most = max((kernel.counts.matched for kernel in kernels), default=0)
    return (
        f"--launch {launch[0]}: no kernel that matched was launched that often "
        f"(the most is {most}; ordinals start at 0 and count after -k and --where)"
    )


def _no_such_graph(graph: int, skip: int, processes: Sequence[ProcessLog]) -> str:
    launched = [process.counts.graphs for process in processes if process.counts is not None]
    most = max(map(len, launched), default=0)
    text = f"--graph {graph}:{skip}: "
    if not most:
        return text + "the program launched no graph that a native shim saw"
    if graph >= most:
        return f"{text}graphs 0 to {most - 1} were launched (kerncap list --by graph shows them)"
    times = max(counts[graph] for counts in launched if len(counts) > graph)
    if skip >= times:
        return f"{text}graph {graph} was launched {times} times, which count from 0"
    return text + "no kernel of this graph was chosen"


def _without_source(options: CaptureOptions, kernels: Sequence[KernelSummary]) -> str:
    most = max(kernels, key=lambda kernel: kernel.counts.launches)
    command = shlex.join(["kerncap", "capture", "-k", f"^{re.escape(most.name)}", "--", *options.run.command])
    launched = "one kernel was" if len(kernels) == 1 else f"{len(kernels)} kernels were"
    return (
        f"{launched} launched, with no known source; without -k only kernels with source are "
        f"captured (libraries ship none). Name one: {command}"
    )


def _nonzero(filtered: Mapping[str, int]) -> list[str]:
    return [name for name, count in filtered.items() if count]


def _no_such_name(pattern: str, kernels: Sequence[KernelSummary]) -> str:
    names = sorted({log.one_line(kernel.name, 120) for kernel in kernels})
    plain = re.sub(r"[^A-Za-z0-9_]", "", pattern)
    inside = [name for name in names if plain and plain.lower() in name.lower()]
    near = inside or difflib.get_close_matches(plain, names, n=MAX_NAMES, cutoff=0.5)
    if near:
        return f"-k {pattern!r} matches none of {len(names)} kernels; nearest: {_shown(near)}"
    return f"-k {pattern!r} matches none of {len(names)} kernels: {_shown(names)}"
