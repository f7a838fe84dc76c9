"""The launches that a proof is about: a reproducer's own, or with a source in place of its kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from kerncap.api.compiled_ttir import Instead, compile_source
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer, schema
from kerncap.replay.outcome import Config, Scalar

if TYPE_CHECKING:
    from kerncap.sanitizer.launch import Launch

_WHY = "a proof reads TTIR"


def check_language(reproducer: Reproducer) -> None:
    """Raises UsageError for a kernel that is no Triton kernel."""
    language = reproducer.manifest.kernel.language
    if language != "triton":
        raise UsageError(f"{reproducer.path}: a {language} kernel; a proof reads Triton kernels")


def captured(reproducer: Reproducer, *, trusted: bool = False, python: str | None = None) -> Launch:
    """The launch as it was captured; its source is compiled if there is no TTIR. Raises KerncapError."""
    from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, target_of

    target, text = target_of(reproducer.manifest.device), None
    if reproducer.code("ttir") is None:
        text = compile_source(reproducer, target, _WHY, trusted=trusted, python=python)
    return launch_from_reproducer(reproducer, text, target)


def with_source(
    reproducer: Reproducer, text: str, name: str, config: Config | None, *, python: str | None = None
) -> Launch:
    """The launch with a source of the user's, which its places call ``name``. Raises KerncapError."""
    from kerncap.sanitizer.sources.reproducer import launch_from_reproducer, target_of

    wanted: Mapping[str, Scalar] = {} if config is None else config.arguments
    roles = {argument.name: argument.role for argument in reproducer.manifest.arguments}
    for one in wanted:
        if roles.get(one) != "constexpr":
            raise BackendUnavailable("proof", f"{name} sets {one}, which is not a constexpr of the launch")

    def change(argument: schema.Argument) -> schema.Argument:
        if argument.name not in wanted:
            return argument
        return msgspec.structs.replace(argument, value=_value(wanted[argument.name]))

    target = target_of(reproducer.manifest.device)
    compiled = compile_source(reproducer, target, _WHY, python=python, instead=Instead(text, name, change))
    launch = launch_from_reproducer(reproducer, compiled, target)
    return launch if config is None or config.grid is None else replace(launch, grid=config.grid)


def _value(value: Scalar) -> schema.Value:
    if value is None:
        return schema.NoneValue()
    if isinstance(value, bool):
        return schema.BoolValue(value=value)
    if isinstance(value, int):
        return schema.IntValue(value=str(value))
    return schema.FloatValue(value=value.hex()) if isinstance(value, float) else schema.StrValue(value=value)
