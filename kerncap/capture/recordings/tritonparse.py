"""Launches of a log of tritonparse: NDJSON, plain or compressed by gzip, and tensors that it saved.

Source: tritonparse/structured_logging.py (`compilation` and `launch` events, TensorBlobManager), 2026-09.
"""

from __future__ import annotations

import ast
import builtins
import gzip
import hashlib
import io
import os
import re
import textwrap
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kerncap.capture.payloads import KernelName, LaunchRecord
from kerncap.capture.recordings import torch_file
from kerncap.capture.recordings.recorded import (
    Bytes,
    Folder,
    Lacking,
    LeftOut,
    Recorded,
    check_total,
    document,
    grid_of,
    number,
    numbers,
)
from kerncap.capture.source import python_source
from kerncap.capture.source.source_text import global_names
from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.log import one_line
from kerncap.regular_file import open_regular

MAX_LINE = 256 << 20
MAX_COMPILATIONS = 4096  # that are kept, and
MAX_COMPILATION_BYTES = 1 << 30  # of their lines
RECORD = (
    'record them: tritonparse.structured_logging.init("logs", enable_trace_launch=True, '
    "enable_tensor_blob_storage=True)"
)
_STAGES = ("ttir", "ttgir", "llir", "ptx", "amdgcn")
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_HEADER = "import triton\nimport triton.language as tl\n\n\n"
_PIECE = 1 << 20
_AROUND = 1 << 20  # bytes of a file besides the storage
_TENSOR = 4096  # bytes: where made-up addresses begin to be aligned


def is_log(path: Path) -> bool:
    return path.name.endswith((".ndjson", ".ndjson.gz", ".jsonl", ".bin.ndjson"))


class Log:
    """A log, read once in its order."""

    def __init__(self, path: Path, max_bytes: int | None) -> None:
        self._path = path
        self._max = max_bytes
        self._compilations: dict[str, dict[str, Any]] = {}
        self._kept_bytes = 0

    def launches(self, kernel: re.Pattern[str] | None, wanted: int) -> Iterator[Recorded | LeftOut]:
        """Launch number ``wanted`` of each kernel whose name ``kernel`` finds."""
        seen: Counter[str] = Counter()
        for event, size in self._events():
            if event.get("event_type") == "compilation":
                self._keep(event, size)
            if event.get("event_type") != "launch":
                continue
            name = str(event.get("name"))[:4096]
            ordinal = seen[name]
            seen[name] += 1
            if ordinal != wanted or (kernel is not None and not kernel.search(name)):
                continue
            try:
                yield self._launch(event, name, ordinal)
            except Lacking as error:
                yield LeftOut(f"launch {ordinal} of {name}", str(error))
        if not seen:
            raise UsageError(f"{self._path}: it has no launch, only compilations; {RECORD}")

    def _events(self) -> Iterator[tuple[dict[str, Any], int]]:
        """Each with the bytes of its line."""
        with open_regular(self._path) as file:
            packed = file.peek(2)[:2] == b"\x1f\x8b"  # type: ignore[attr-defined]
            lines: io.BufferedIOBase = gzip.GzipFile(fileobj=file) if packed else file  # type: ignore[assignment]
            row = 0
            while line := self._line(lines, row):
                row += 1
                if line.strip():
                    yield document(line, self._path.with_name(f"{self._path.name}:{row}")), len(line)

    def _line(self, lines: io.BufferedIOBase, row: int) -> bytes:
        try:
            line = lines.readline(MAX_LINE + 1)
        except (OSError, EOFError) as error:
            raise UsageError(f"{self._path}: line {row + 1} can't be read: {one_line(str(error))}") from error
        if len(line) > MAX_LINE:
            raise UsageError(f"{self._path}: line {row + 1} has more than {MAX_LINE:,} bytes")
        return line

    def _keep(self, event: dict[str, Any], size: int) -> None:
        payload = _object(event.get("payload"))
        key = _object(payload.get("metadata")).get("hash")
        fits = self._kept_bytes + size <= MAX_COMPILATION_BYTES and len(self._compilations) < MAX_COMPILATIONS
        if isinstance(key, str) and fits:
            self._compilations[key] = payload
            self._kept_bytes += size

    def _launch(self, event: dict[str, Any], name: str, ordinal: int) -> Recorded:
        facts = _object(event.get("compilation_metadata"))
        given = _object(event.get("extracted_args"))
        if "_note" in given:
            raise Lacking(f"its arguments were not recorded: {one_line(str(given['_note']))[:200]}")
        compilation = self._compilations.get(str(facts.get("hash")))
        if compilation is None:
            limits = f"the first {MAX_COMPILATIONS:,} in {MAX_COMPILATION_BYTES >> 20:,} MiB are read"
            raise Lacking(f"its compilation is not in the log before it; {limits}")
        source, entry, original, missing = _source(compilation, name)
        constants = constexprs(source, entry)
        memory = _Memory(Folder(self._path.parent), self._max)
        arguments = tuple(
            schema.Argument(
                name=argument[:4096],
                role="constexpr" if argument in constants else "runtime",
                value=memory.value(argument, _object(value)),
            )
            for argument, value in given.items()
        )
        regions, contents, views = memory.placed()
        target = _object(facts.get("target"))
        is_hip = target.get("backend") == "hip"
        arch = str(target.get("arch", ""))[:64]
        launch = LaunchRecord(
            launch=0, mode="jit", ordinal=ordinal, grid=grid_of(event.get("grid")),
            kernel=KernelName(
                name=name, qualified_name=name, file=original and original[:4096], line=_line_of(compilation)
            ),
            device=schema.Device(
                kind="hip" if is_hip else "cuda", name="unknown",
                arch=arch if is_hip or not arch.isdigit() else f"sm_{arch}",
            ),
            regions=regions, views=views, arguments=arguments,
            options={
                option: schema.IntValue(value=str(facts[option]))
                for option in _OPTIONS
                if isinstance(facts.get(option), int) and not isinstance(facts.get(option), bool)
            },
            closure=schema.Closure(
                mode="args", consistency="cooperative", included_bytes=sum(each.size for each in regions)
            ),
        )  # fmt: skip
        files = _object(compilation.get("file_content"))
        code = {
            stage: str(text).encode()
            for stage in _STAGES
            for file, text in files.items()
            if file.endswith(f".{stage}") and isinstance(text, str) and not text.startswith("<")
        }
        version = facts.get("triton_version")
        notes = [f"the source lacks {', '.join(missing)}; record with TRITON_FULL_PYTHON_SOURCE=1"] * bool(
            missing
        )
        notes += memory.notes
        return Recorded(
            launch, contents, "tritonparse", code, source, original,
            packages={"triton": version[:4096]} if isinstance(version, str) else {}, notes=tuple(notes),
        )  # fmt: skip


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


# --- source ----------------------------------------------------------------------------------------------


def _source(compilation: dict[str, Any], name: str) -> tuple[str, str, str | None, list[str]]:
    """(a module, the kernel's name in it, the application's file, names that the module lacks)."""
    given = _object(compilation.get("python_source"))
    code, file = given.get("code"), given.get("file_path")
    original = file if isinstance(file, str) else None
    if not isinstance(code, str) or not code.strip():
        raise Lacking("the log has no Python source of it")
    entry = str(_object(compilation.get("metadata")).get("name") or name)
    text = code if python_source.parse(code) else textwrap.dedent(code)
    found = python_source.only(text, entry)
    if found is None:
        raise Lacking(f"its source has no function {one_line(entry)[:100]}, or several")
    made = python_source.standalone(found, original or "", also=("triton", "tl"))
    if isinstance(made, str):
        raise Lacking(made)
    module = made.text
    if not re.search(r"^(import|from) triton", module, re.MULTILINE):
        module = _HEADER + module
    return module, made.entry, original, _missing(ast.parse(module))


def _missing(module: ast.Module) -> list[str]:
    """Names that its functions use and nothing in it defines: by default, the log has one function's text."""
    bound = set(dir(builtins))
    used = set()
    for statement in module.body:
        if isinstance(statement, ast.Import | ast.ImportFrom):
            bound |= {alias.asname or alias.name.split(".")[0] for alias in statement.names}
        elif isinstance(statement, ast.FunctionDef | ast.ClassDef):
            bound.add(statement.name)
        else:
            bound |= {each.id for each in ast.walk(statement) if isinstance(each, ast.Name)}
        if isinstance(statement, ast.FunctionDef):
            used |= {each.id for each in global_names(statement)}
    return sorted(used - bound)


def _line_of(compilation: dict[str, Any]) -> int | None:
    line = _object(compilation.get("python_source")).get("start_line")
    return line if isinstance(line, int) and 0 <= line < 1 << 31 else None


def constexprs(module: str, entry: str) -> set[str]:
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.FunctionDef) and node.name == entry.split(".")[-1]:
            every = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            return {
                each.arg for each in every if each.annotation and "constexpr" in ast.unparse(each.annotation)
            }
    return set()


# --- arguments and memory --------------------------------------------------------------------------------


class _Memory:
    """The tensors of a launch at their addresses; those that overlap share a region."""

    def __init__(self, folder: Folder, max_bytes: int | None) -> None:
        self._folder = folder
        self._max = max_bytes
        self.notes: list[str] = []
        self._tensors: list[tuple[str, int, int, dict[str, Any], torch_file.Tensor]] = []

    def value(self, name: str, given: dict[str, Any]) -> schema.Value:
        kind, value = given.get("type"), given.get("value", given.get("repr"))
        if kind == "tensor":
            self._add(name, given)
            return schema.TensorValue(view=len(self._tensors) - 1)
        if kind == "NoneType":
            return schema.NoneValue()
        if kind == "float" and isinstance(value, int | float | str):
            return schema.scalar_value(_float(value))
        if (kind, type(value)) in (("bool", bool), ("int", int), ("str", str)):
            return schema.scalar_value(value)
        if kind == "dtype" and isinstance(value, str):
            return schema.DtypeValue(
                name=value.removeprefix("torch."), library="torch" if "torch." in value else "triton"
            )
        raise Lacking(
            f"argument {one_line(name)[:100]} is a {one_line(str(kind))[:100]}, which the log only names"
        )

    def _add(self, name: str, given: dict[str, Any]) -> None:
        shape, strides = (
            numbers(given.get("shape"), f"{name}'s shape"),
            numbers(given.get("stride"), f"{name}'s strides"),
        )
        itemsize = number(given.get("element_size"), f"{name}'s element size", 64)
        if len(shape) != len(strides) or not itemsize:
            raise Lacking(f"{name}'s shape and strides do not fit")
        span = (
            0
            if 0 in shape
            else sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) * itemsize + itemsize
        )
        check_total([span], self._max)
        tensor = self._saved(name, given, itemsize, span)
        if tensor.shape != shape:
            raise Lacking(f"{name} was saved with another shape")
        if span > tensor.elements.nbytes:
            self.notes.append(f"memory between the elements of {one_line(name)[:100]} was not saved: zeros")
        address = given.get("data_ptr")
        at = (
            int(address, 16) if isinstance(address, str) and re.fullmatch(r"0x[0-9a-f]{1,15}", address) else 0
        )
        self._tensors.append((name, at, span, given, tensor))

    def _saved(self, name: str, given: dict[str, Any], itemsize: int, span: int) -> torch_file.Tensor:
        blob, digest = given.get("blob_path"), given.get("tensor_hash")
        if (
            not isinstance(blob, str)
            or not isinstance(digest, str)
            or not re.fullmatch(r"[0-9a-f]{128}", digest)
        ):
            said = given.get("error")
            why = f" ({one_line(str(said))[:200]})" if said else ""
            raise Lacking(f"the contents of {name} were not saved{why}; {RECORD}")
        file = os.path.basename(blob)
        names = [f"saved_tensors/{digest[:2]}/{file}", f"{digest[:2]}/{file}", file]
        found = next((each for each in names if self._folder.has(each)), None)
        if found is None:
            raise Lacking(f"the contents of {name} are not next to the log: {names[0]}")
        most = 2 * span + _AROUND  # it was copied from the device, so its storage has no more than itself
        data = self._folder.read(found, most)
        if found.endswith(".gz"):
            data = _unpacked(data, most, name)
        if hashlib.blake2b(data).hexdigest() != digest:
            raise Lacking(f"the contents of {name} do not have the digest that the log names")
        try:
            return torch_file.read_tensor(data, itemsize, most)
        except torch_file.TorchFileProblem as error:
            raise Lacking(f"the contents of {name}: {error}") from error

    def placed(self) -> tuple[tuple[schema.Region, ...], list[Bytes], tuple[schema.View, ...]]:
        """Regions, their contents, and a view for each tensor."""
        check_total([span for _, _, span, _, _ in self._tensors], self._max)
        spans = sorted({(at, at + span) for _, at, span, _, _ in self._tensors if at})
        joined: list[list[int]] = []
        for low, high in spans:
            if joined and low < joined[-1][1]:
                joined[-1][1] = max(joined[-1][1], high)
            else:
                joined.append([low, high])
        free = (max((high for _, high in joined), default=1 << 46) // _TENSOR + 1) * _TENSOR
        contents = [np.zeros(high - low, np.uint8) for low, high in joined]
        views = []
        for name, at, span, given, tensor in self._tensors:
            if not at:  # a log without addresses: its own region, as aligned as an allocation
                joined.append([free, free + span])
                contents.append(np.zeros(span, np.uint8))
                at = free
                free = (free + span) // _TENSOR * _TENSOR + 2 * _TENSOR
            region = next(n for n, (low, high) in enumerate(joined) if low <= at and at + span <= high)
            offset, itemsize = at - joined[region][0], given["element_size"]
            strides = tuple(given["stride"])
            if span:
                once = tuple(slice(None) if stride else 0 for stride in strides)  # of what is repeated, one
                if tensor.elements[once].size > span:
                    raise Lacking(f"elements of {one_line(name)[:100]} overlap")
                bytes_ = (*(stride * itemsize for stride in strides), 1)
                place = np.lib.stride_tricks.as_strided(
                    contents[region][offset:], (*tensor.shape, itemsize), bytes_
                )
                place[once] = tensor.elements[once]
            views.append(
                schema.View(
                    region=region, offset=offset, dtype=str(given.get("dtype")).removeprefix("torch.")[:64],
                    itemsize=itemsize, shape=tensor.shape, strides=strides, name=name[:4096],
                )
            )  # fmt: skip
        regions = tuple(
            schema.Region(base=low, size=high - low, kind="device", reason="recorded tensor")
            for low, high in joined
        )
        return regions, contents, tuple(views)


def _unpacked(data: bytes, most: int, name: str) -> bytes:
    found = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
            while piece := file.read(_PIECE):
                found += piece
                if len(found) > most:
                    raise Lacking(f"the contents of {name} take more than {most:,} bytes")
    except (OSError, EOFError, ValueError) as error:
        raise Lacking(f"the contents of {name} can't be unpacked: {one_line(str(error))[:200]}") from error
    return bytes(found)


def _float(value: float | str) -> float:
    try:
        return float(value)
    except (ValueError, OverflowError) as error:
        raise Lacking("an argument is a float that the log does not give as a number") from error
