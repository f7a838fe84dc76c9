"""A launch's records put together as the manifest of a reproducer."""

from __future__ import annotations

import datetime
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

import kerncap
from kerncap import env
from kerncap.capture.payloads import CompleteRecord, LaunchRecord, ProcessRecord
from kerncap.errors import CaptureError
from kerncap.format import schema
from kerncap.format.private.command import without_secrets

MAX_NAME = 4096  # of a kernel in the manifest; its other names may be longer


def arguments_of(launch: LaunchRecord, complete: CompleteRecord | None) -> tuple[schema.Argument, ...]:
    """The arguments with what only the compiled kernel knew: signature and divisibility."""
    if complete is None:
        return launch.arguments
    merged = []
    for argument in launch.arguments:
        changes: dict[str, Any] = {}
        if complete.signature.get(argument.name) is not None:
            changes["signature"] = complete.signature[argument.name]
        if complete.divisibility.get(argument.name) is not None:
            changes["divisibility"] = complete.divisibility[argument.name]
        merged.append(msgspec.structs.replace(argument, **changes) if changes else argument)
    return tuple(merged)


def name_functions(arguments: Sequence[schema.Argument], names: Sequence[str]) -> tuple[schema.Argument, ...]:
    """Functions among the arguments get the names that they have in the source module, in order.

    They keep their own if the source lacks one of them: no function must stand for another.
    """
    if sum(_count_functions(item.value) for item in arguments) != len(names):
        return tuple(arguments)
    rest = iter(names)

    def renamed(value: schema.Value) -> schema.Value:
        if isinstance(value, schema.FunctionValue):
            return schema.FunctionValue(name=next(rest, value.name))
        if isinstance(value, schema.SequenceValue):
            return msgspec.structs.replace(value, items=tuple(renamed(item) for item in value.items))
        return value

    return tuple(msgspec.structs.replace(item, value=renamed(item.value)) for item in arguments)


def _count_functions(value: schema.Value) -> int:
    if isinstance(value, schema.SequenceValue):
        return sum(map(_count_functions, value.items))
    return isinstance(value, schema.FunctionValue)


def oracle_of(complete: CompleteRecord) -> schema.Oracle:
    """What COMPLETE says about the application's own output."""
    kind = complete.oracle
    if complete.status != "complete" and kind == "trusted":
        kind = complete.status  # a fault's memory is nothing to compare with
    return schema.Oracle(
        kind=kind,
        error=env.hide_home(complete.error) if complete.error else None,
        condition=complete.condition,
        detail=complete.detail,
        printed=_printed(complete),
    )


def _printed(complete: CompleteRecord) -> str | None:
    """What the kernel printed, if no byte of it is lost: a record holds text, and a kernel prints bytes."""
    return None if complete.printed is None or "\ufffd" in complete.printed else complete.printed


def platform_of(process: ProcessRecord | None) -> schema.Platform:
    """This machine, and Python and packages as the target found them."""
    system = os.uname()
    packages = {} if process is None else {k: v for k, v in process.packages.items() if v is not None}
    return schema.Platform(
        system=f"{system.sysname} {system.release}",
        machine=system.machine,
        python=process.python if process is not None else "unknown",  # "" of a program that is no Python
        packages=packages,
    )


def build_manifest(
    launch: LaunchRecord,
    complete: CompleteRecord | None,
    *,
    process: ProcessRecord | None,
    oracle: schema.Oracle,
    command: Sequence[str],
    environment: Mapping[str, str],
    memory: schema.Memory,
    code: Sequence[schema.CodeFile],
    compiled: Mapping[str, schema.Value],
    source: schema.Source | None,
    functions: Sequence[str],
    zeros: Sequence[schema.ZeroRange] = (),
    notes: Sequence[str],
) -> schema.Manifest:
    """The manifest; raises CaptureError if the launch's own indices do not fit together."""
    check_indices(launch)
    kernel = launch.kernel
    created = datetime.datetime.fromtimestamp(launch.time_ns / 1e9, datetime.timezone.utc)
    return schema.Manifest(
        format="kerncap-reproducer",
        version=schema.Version(schema.FORMAT_MAJOR, schema.FORMAT_MINOR),
        tool=schema.Tool(name="kerncap", version=kerncap.__version__),
        created=created.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        command=tuple(env.hide_home(part)[:4096] for part in without_secrets(command)),
        platform=platform_of(process),
        device=launch.device,
        kernel=schema.Kernel(
            name=kernel.name[:MAX_NAME],
            qualified_name=kernel.qualified_name,
            language=_language(launch),
            module=kernel.module,
            file=kernel.file,
            line=kernel.line,
            mangled=kernel.mangled,
        ),
        launch=schema.Launch(
            grid=launch.grid,
            ordinal=launch.ordinal,
            mode=launch.mode,
            options=launch.options,
            block=launch.block,
            cluster=launch.cluster,
            shared_bytes=launch.shared_bytes,
            cooperative=launch.cooperative,
            attributes=launch.launch_attributes,
            parameters=launch.parameters,
            dispatch=launch.dispatch,
            limits=launch.limits,
            textures=launch.textures,
            stream=launch.stream,
            route=launch.route,
            grid_source=launch.grid_source,
            python_stack=launch.python_stack,
        ),
        arguments=name_functions(arguments_of(launch, complete), functions),
        regions=launch.regions,
        views=launch.views,
        closure=launch.closure,
        memory=memory,
        oracle=oracle,
        zeros=tuple(zeros),
        environment=dict(environment),
        code=tuple(code),
        compiled={**compiled, **(complete.compiled if complete is not None else {})},
        source=source,
        autotune=launch.autotune,
        collective=launch.collective,
        notes=(*launch.notes, *notes)[: schema.MAX_MAP],
    )


def _language(launch: LaunchRecord) -> Literal["triton", "cuda", "hip"]:
    if launch.mode != "native":
        return "triton"
    return "hip" if launch.device.kind == "hip" else "cuda"


def check_indices(launch: LaunchRecord) -> None:
    """Every view lies on a region that exists, and each region has its place in the pre-state."""
    for number, view in enumerate(launch.views):
        if view.region >= len(launch.regions):
            raise CaptureError(f"view {number} is on region {view.region} of {len(launch.regions)}")
    if launch.pre is not None and len(launch.pre_offsets) != len(launch.regions):
        raise CaptureError(f"{len(launch.pre_offsets)} offsets for {len(launch.regions)} regions")
