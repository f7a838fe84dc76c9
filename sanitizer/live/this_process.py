"""Every launch of this process, judged in this process: for test suites that import kerncap and Triton."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from kerncap.sanitizer.findings import LaunchReport
from kerncap.sanitizer.live.carried_out import CarryOutError
from kerncap.sanitizer.live.judged_once import Judge
from kerncap.sanitizer.sources import triton_hook
from kerncap.sanitizer.sources.fetched_contents import from_tensors
from kerncap.sanitizer.sources.python_stack import users_frames


def watch(
    judge: Judge,
    judged: Callable[[LaunchReport], None],
    *,
    target: str | None = None,
    every_configuration: bool = True,
    fresh: bool = True,
    allocations: bool = False,
) -> None:
    """From now on, each Triton launch goes to ``judge`` first and its report to ``judged``.

    Launches on CPU tensors are carried out by the evaluator, those on a GPU run as they would. Imports
    neither torch nor triton: they are hooked when the program does. Raises BackendUnavailable.
    """
    start = triton_hook.load("start")

    def make() -> Any:
        return _watcher(judge, judged, target, every_configuration, allocations)

    start.watch_process(make, fresh)


def _watcher(
    judge: Judge,
    judged: Callable[[LaunchReport], None],
    target: str | None,
    every_configuration: bool,
    allocations: bool,
) -> Any:
    hooks, contents = triton_hook.load("hooks"), triton_hook.load("storage_contents")

    class Here(hooks.Watcher):  # type: ignore[misc, name-defined, unused-ignore]
        def launched(self, description: Any, carries_out: bool) -> None:
            reader = contents.Reader(description.places)
            facts = dataclasses.replace(description.facts, stack=users_frames(description.facts.stack))
            report, launch = judge.judge(facts, description.ttir, description.sources, from_tensors(reader))
            judged(report)
            if not carries_out:
                return
            try:
                changes = judge.carry_out(report, launch)
            except CarryOutError as error:
                return hooks.warn_not_carried_out(report.kernel, str(error))  # type: ignore[no-any-return]
            for storage, stretches in changes.items():
                for offset, data in stretches:
                    reader.write(storage, offset, data)

        def missed(self, kernel: str, reason: str) -> None:
            judge.missed(kernel, reason)

    watcher = Here(target, every_configuration)
    if allocations:
        watcher.allocations = triton_hook.load("allocations").block_of
    return watcher
