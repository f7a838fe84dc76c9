"""A capture's result as lines for a person."""

from __future__ import annotations

import collections
import re
import shlex
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from kerncap import log
from kerncap.capture.kernel_spellings import base_name
from kerncap.capture.outcome import CaptureResult, KernelSummary, SelfCheck
from kerncap.capture.seal import SealedLaunch
from kerncap.capture.target import signal_name
from kerncap.format.contract import default, word
from kerncap.report.tables import table

MAX_ROWS = 30
_LONG_NAME = 100  # characters; a command that repeats it whole fills a page
_LONGEST_PREFIX = 4096
MAX_LAST = 8  # launches before a fault that are shown ...
MAX_LAST_NAMES = 4  # ... and kernels of them that the ready command chooses


def render_capture(result: CaptureResult) -> str:
    """One line per reproducer, what failed, what else there is, what to do next."""
    lines = [_captured_line(sealed, result.self_checks.get(sealed.path)) for sealed in result.captured]
    lines += _problem_lines(result)
    lines += fault_lines(result)
    lines += result.notes
    if result.reason is not None:
        lines.append(result.reason if result.target.pid is None else f"nothing captured: {result.reason}")
    if result.target.pid is not None and result.target.error:
        lines.append(result.target.error)
    if result.stopped_as_asked:
        lines.append("the target was stopped (--stop)")
    elif result.target.signal is not None:
        lines.append(f"the target was killed by {signal_name(result.target.signal)}")
    elif result.target.pid is not None and result.target.status:
        lines.append(f"the target ended with status {result.target.status}")
    if result.launches:
        launches = f"{result.launches:,} launch{'es' * (result.launches != 1)}"
        lines.append(f"armed cost: {log.duration(result.overhead_ns)} over {launches}")
    if result.kept_session is not None:
        place = shlex.quote(str(result.kept_session))
        lines.append(f"the session stays in {place}; seal the rest of it with: kerncap seal {place}")
    if result.captured:
        failed = [each for each in result.captured if _fails(result.self_checks.get(each.path))]
        place = shlex.quote(_shown((failed or result.captured)[0]))
        if result.options.keep.no_values:
            lines.append(f"next: kerncap inspect {place}")
        else:  # of one that fails, verify gives the cause
            lines.append(f"next: kerncap {'verify' if failed else 'replay'} {place}{_python(result)}")
    text = "".join(f"kerncap: {line}\n" for line in lines)
    if result.shows_rest:
        text += _rest_table(result)
    return text


def own_name(kernel: KernelSummary, result: CaptureResult) -> str:
    """The shortest spelling of its name that no other kernel has; the longest is unique."""
    longest, *shorter = kernel.spellings
    others = [set(other.spellings) for other in result.kernels if other != kernel]
    return next((n for n in reversed(shorter) if not any(n in names for names in others)), longest)


def shown_name(kernel: KernelSummary, result: CaptureResult) -> str:
    """For a table: instances of one template differ by their arguments, not by a mangled name."""
    name = own_name(kernel, result)
    return kernel.qualified_name if kernel.is_native and name == kernel.spellings[0] else name


def capture_command(kernel: KernelSummary, result: CaptureResult, selectors: Sequence[str] = ()) -> str:
    """A command line for a shell that captures the first launch of exactly this kernel.

    ``selectors`` narrow that to some of its launches.
    """
    pattern = own_pattern(kernel, result)
    return range_command(result, ["-k", pattern, *selectors])


def range_command(result: CaptureResult, selectors: Sequence[str]) -> str:
    """A command line for a shell that captures what ``selectors`` choose of all kernels."""
    words = ["kerncap", "capture", *selectors, *result.output_words, "--", *result.options.run.command]
    return shlex.join(words)


def own_pattern(kernel: KernelSummary, result: CaptureResult) -> str:
    """What ``-k`` is given to choose exactly this kernel: its name, of a long one as much as tells it from
    the others."""
    name = own_name(kernel, result)
    if len(name) > _LONG_NAME:
        others = [n for other in result.kernels if other != kernel for n in other.spellings]
        whole = kernel.qualified_name
        for end in range(_LONG_NAME // 2, min(len(whole), _LONGEST_PREFIX)):
            within_a_word = re.fullmatch(r"\w\w", whole[end - 1 : end + 1])
            if not within_a_word and not any(other.startswith(whole[:end]) for other in others):
                return f"^{re.escape(whole[:end])}"
    return f"^{re.escape(name)}$"


def chooses_only(kernel: KernelSummary, result: CaptureResult) -> bool:
    """Whether the ready command's ``-k`` is found in the names of this kernel and of no other."""
    pattern = re.compile(own_pattern(kernel, result))
    chosen = [each for each in result.kernels if any(pattern.search(name) for name in each.spellings)]
    return chosen == [kernel]


def dormant_line(session: Path) -> str:
    """What is said when a dormant program starts: how to arm it, from anywhere."""
    return (
        f"dormant; arm it at any time with: kerncap arm {shlex.quote(log.from_here(session))} -k REGEX --wait"
    )


def fault_lines(result: CaptureResult) -> list[str]:
    """After a fault that nothing was armed for: what ran last, and how to take it the next time."""
    command = fault_command(result)
    if command is None or result.last is None:
        return []
    error = f": {log.one_line(result.last.error)}" if result.last.error else ""
    lines = [f"a kernel faulted{error}; the last launches of its process, newest first:"]
    for each in reversed(result.last.launches[-MAX_LAST:]):
        grid, block = ("x".join(map(str, size)) for size in (each.grid, each.block))
        lines.append(f"  {log.one_line(each.kernel, 100)} (grid {grid}, block {block}, stream {each.stream})")
    return [*lines, f"to keep the launch that faults: {command}"]


def fault_command(result: CaptureResult) -> str | None:
    """What captures the launch that faults in the next run; None without a fault, or if it was asked."""
    if result.last is None or result.options.selection.on_fault or not result.last.launches:
        return None
    names = dict.fromkeys(base_name(each.kernel) for each in reversed(result.last.launches))
    chosen = [re.escape(name) for name, _ in zip(names, range(MAX_LAST_NAMES), strict=False)]
    pattern = f"^{chosen[0]}$" if len(chosen) == 1 else f"^({'|'.join(chosen)})$"
    return shlex.join(
        [
            "kerncap",
            "capture",
            "--on-fault",
            "-k",
            pattern,
            *result.output_words,
            "--",
            *result.options.run.command,
        ]
    )


def _problem_lines(result: CaptureResult) -> list[str]:
    """Each problem once, with how often; the one that is the reason is said there."""
    counted = collections.Counter(result.failed)
    return [
        f"problem: {text}" + (f" ({count} times)" if count > 1 else "")
        for text, count in counted.items()
        if result.reason is None or not result.reason.startswith(text)
    ]


def _fails(check: SelfCheck | None) -> bool:
    return check is not None and check.result == "fail"


def _captured_line(sealed: SealedLaunch, check: SelfCheck | None) -> str:
    grid = "x".join(map(str, sealed.grid))
    rank = f"rank {sealed.rank}, " if sealed.rank is not None else ""
    launch = f"launch {sealed.ordinal}, grid {grid}"
    if sealed.launches > 1:
        launch = f"{sealed.launches} launches from number {sealed.ordinal} on"
    oracle = "" if sealed.oracle == "trusted" else f", oracle: {sealed.oracle}"
    line = (
        f"captured {log.one_line(sealed.kernel)} ({rank}{launch}, "
        f"{log.size(sealed.regions_bytes)}{oracle}) -> {_shown(sealed)}"
    )
    if check is not None:
        reason = f": {log.one_line(check.reason)}" if check.reason and check.result != "pass" else ""
        line += f" [self-check: {check.result}{reason}]"
    return line


def _python(result: CaptureResult) -> str:
    """The option that names the target's Python, if kerncap's own can't replay."""
    if result.target_python is None or all(find_spec(name) for name in ("torch", "triton")):
        return ""
    return f" --python {shlex.quote(result.target_python)}"


def _shown(sealed: SealedLaunch) -> str:
    return log.from_here(sealed.path)


def _rest_table(result: CaptureResult) -> str:
    done = {sealed.qualified_name for sealed in result.captured}
    rest = [kernel for kernel in result.kernels if kernel.qualified_name not in done]
    rest.sort(key=lambda kernel: -kernel.counts.launches)
    if not rest:
        return ""
    rows = [
        [
            log.one_line(shown_name(kernel, result), 60),
            str(kernel.counts.launches),
            _why(kernel),
            capture_command(kernel, result),
        ]
        for kernel in rest[:MAX_ROWS]
    ]
    more = f"… and {len(rest) - MAX_ROWS} more: kerncap list shows all\n" if len(rest) > MAX_ROWS else ""
    return (
        "not captured:\n" + table(["kernel", "launches", "because", "to capture it"], rows, right=[1]) + more
    )


_REASONS = {
    word.filter.limit: f"limit: {default.limit_kernels} kernels or {log.size(default.limit_bytes)}",
    "no source": "no source text",
    "autotuner": "only measured by the autotuner",
    "ordinal": "its first launch failed",
    "failed": "failed too often",
}


def _why(kernel: KernelSummary) -> str:
    reasons = sorted((item for item in kernel.counts.filtered.items() if item[1]), key=lambda item: -item[1])
    known = [_REASONS.get(name, log.one_line(name, 60)) for name, _ in reasons[:2]]
    return ", ".join(known) or "it failed, see above"
