"""A job with another configuration: other values of parameters, other compiler options, another grid."""

from __future__ import annotations

from typing import Any

from ..common.failures import Refused
from ..job import Job, JobArgument, JobLaunch, of_launch
from ..protocol import Config, Variation


def varied(job: Job, variation: Variation) -> Job:
    """``job`` for a launch of its range, with a configuration and values. Raises Refused as `configured`."""
    return _with_scalars(configured(of_launch(job, variation.launch), variation.config), variation.scalars)


def configured(job: Job, config: Config | None) -> Job:
    """``job`` as ``config`` says; the job itself stays as it is.

    Raises Refused for a parameter that can't be set by a value, by name.
    """
    if config is None:
        return job
    given = dict(config.arguments)
    arguments: list[JobArgument] = []
    for argument in job["arguments"]:
        if argument["name"] in given:
            argument = _with_value(argument, given.pop(argument["name"]))
        arguments.append(argument)
    # A parameter that the captured launch did not name: the source has to take it.
    arguments.extend(
        JobArgument(name=name, role="constexpr", signature="constexpr", value=encoded(value))
        for name, value in given.items()
    )
    options = {name: encoded(value) for name, value in config.options.items()}
    launch: JobLaunch = {**job["launch"], "options": {**job["launch"]["options"], **options}}
    if config.grid is not None:
        if min(config.grid) < 0:
            raise Refused(f"the grid {config.grid} of the configuration is not three numbers from 0 up")
        launch["grid"] = list(config.grid)
    return {**job, "arguments": arguments, "launch": launch}


def _with_scalars(job: Job, scalars: dict[str, str]) -> Job:
    """``job`` with other values of numeric arguments; the job itself stays as it is."""
    if not scalars:
        return job
    arguments: list[JobArgument] = []
    for argument in job["arguments"]:
        if argument["name"] in scalars:
            argument = argument.copy()
            argument["value"] = {**argument["value"], "value": scalars[argument["name"]]}
        arguments.append(argument)
    return {**job, "arguments": arguments}


def with_signature(job: Job, signature: dict[str, Any]) -> Job:
    """``job`` with the parameters of another compiled kernel: their order, and which of them are constants.

    Raises Refused for a parameter that the launch has no value of, by name.
    """
    known = {argument["name"]: argument for argument in job["arguments"]}
    arguments: list[JobArgument] = []
    for name, kind in signature.items():
        if name not in known:
            if kind == "constexpr":
                continue  # a default, compiled in
            raise Refused(
                f"parameter {name} has a default and is not a constant: pass what the launch passes"
            )
        arguments.append({**known[name], "signature": kind if isinstance(kind, str) else None})
    return {**job, "arguments": arguments}


def _with_value(argument: JobArgument, value: Any) -> JobArgument:
    kind = argument["value"]["kind"]
    if kind in ("tensor", "descriptor", "pointer"):
        raise Refused(f"argument {argument['name']} is a {kind}: a configuration can't give it a value")
    return {**argument, "value": encoded(value)}


def encoded(value: Any) -> dict[str, Any]:
    """A value as the manifest has it."""
    if value is None:
        return {"kind": "none"}
    if isinstance(value, bool):
        return {"kind": "bool", "value": value}
    if isinstance(value, int):
        return {"kind": "int", "value": str(value)}
    if isinstance(value, float):
        return {"kind": "float", "value": value.hex()}
    if isinstance(value, str):
        return {"kind": "str", "value": value}
    raise Refused(f"a configuration holds a {type(value).__name__}, which can't be a parameter's value")
