"""Launches of a `@triton.jit` kernel in this process, without launching anything."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.sources import triton_hook
from kerncap.sanitizer.sources.described_launch import launch_of
from kerncap.sanitizer.sources.fetched_contents import from_tensors
from kerncap.sanitizer.sources.python_stack import users_frames


def launches_of(
    kernel: Any,
    grid: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    target: str | None = None,
    all_configs: bool = False,
) -> list[Launch]:
    """What ``kernel[grid](*args, **kwargs)`` would launch, compiled to TTIR (needs no GPU).

    kernel: a JIT function, with `@triton.autotune` and `@triton.heuristics` around it or not.
    grid: a tuple, or a callable of the bound arguments, as Triton takes them.
    args, kwargs: torch tensors on any device, host tensor descriptors, numbers, None, constexprs, tuples.
    target: ``"cuda:90"``, ``"hip:gfx942"``; None is the GPU at hand, or ``cuda:90``.
    all_configs: every configuration of an autotuner instead of the one that it would try first.

    Hooks of an autotuner (``pre_hook``, ``reset_to_zero``) run as they do before a launch. The tensors are
    read when `Launch.contents` is asked, so they must not change before the analysis.
    Raises what Triton raises for a call that does not fit or a kernel that does not compile, and
    BackendUnavailable where Triton or the hook is missing.
    """
    hooks = triton_hook.installed()
    watcher = _collector(hooks)(target, all_configs)
    with hooks.watching(watcher):
        kernel[grid](*args, **(kwargs or {}))
    return list(watcher.launches)


@cache
def _collector(hooks: Any) -> Any:
    """The class of what keeps launches; made once for the hook's modules."""
    contents = triton_hook.load("storage_contents")

    class Collector(hooks.Watcher):  # type: ignore[misc, unused-ignore]
        def __init__(self, target: str | None, all_configs: bool) -> None:
            super().__init__(target, all_configs)
            self.collects_only = True
            self.launches: list[Launch] = []

        def launched(self, description: Any, carry_out: bool) -> None:
            facts = dataclasses.replace(description.facts, stack=users_frames(description.facts.stack))
            read = from_tensors(contents.Reader(description.places))
            self.launches.append(launch_of(facts, description.ttir, description.sources, read))

        def missed(self, kernel: str, reason: str) -> None:
            pass  # what is raised says it

    return Collector
