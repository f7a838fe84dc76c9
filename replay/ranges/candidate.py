"""A candidate for several launches: a file with kernels, and data that say how they are launched.

Of a module with Triton kernels two names are read, each assigned a literal; it is a stranger's and is not
executed here. A source of CUDA C++ or HIP says the same in comments (`launch_lines`).
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import msgspec

from kerncap.errors import UsageError
from kerncap.format import schema
from kerncap.format.schema import Manifest
from kerncap.printable import visible
from kerncap.regular_file import read_regular
from kerncap.replay.ranges import launch_lines
from kerncap.replay.tuning.grid import GridUnknown, plain, recompute
from kerncap.replay.worker.protocol import Scalar, Three, three

SOURCES = (".cu", ".hip", ".cpp", ".cc", ".cxx")
LAUNCHES, REPLACES = "LAUNCHES", "REPLACES"
_MOST_BYTES = 4 << 20  # of a file
_MOST_LAUNCHES = 1024
_MOST_PROGRAMS = 2**31 - 1
_MOST_THREADS = 1024
_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg")
_KEYS = ("kernel", "grid", "arguments", "options")
_MEMORY = schema.TensorValue | schema.DescriptorValue | schema.SequenceValue
_OF_LAUNCH = re.compile(r"(\d{1,4})\.(\w{1,256})")


@dataclass(frozen=True)
class CandidateLaunch:
    """One launch: a kernel of the file; ``place`` is where in it that is said.

    A text such as ``2.out`` among ``arguments`` is what launch 2 of the range was passed as ``out``; all else
    is a value. Of a source they are named by their number, from 1; ``block`` is None of a module, whose grid
    may be a text: a callable as Triton takes one.
    """

    place: str
    kernel: str
    grid: Three | str
    arguments: dict[str, Scalar]
    options: dict[str, int]
    block: Three | None = None
    shared_bytes: int = 0


@dataclass(frozen=True)
class RangeCandidate:
    """What the file ``path`` launches in place of the launches ``first`` to ``last`` of a range.

    ``text`` is a source's, from which its launches were read; None of a module.
    """

    path: Path
    first: int
    last: int
    launches: tuple[CandidateLaunch, ...]
    text: bytes | None = None


def read(path: Path, launches: int) -> RangeCandidate:
    """The candidate in ``path`` for a range of ``launches``. Raises UsageError if it is not one."""
    if path.suffix in SOURCES:
        return of_source(path, read_regular(path, _MOST_BYTES), launches)
    if path.suffix != ".py":
        known = ", ".join(sorted((".py", *SOURCES)))
        raise UsageError(f"{path}: a candidate for several launches is one of {known}")
    found = _literals(path)
    if LAUNCHES not in found:
        raise UsageError(
            f"{path}: no {LAUNCHES}, which say what the module launches in place of the range's launches; "
            "a candidate for one of them is judged with --launch K"
        )
    first, last = _replaced(path, found.get(REPLACES), launches)
    listed = found[LAUNCHES]
    if not isinstance(listed, list | tuple) or not 0 < len(listed) <= _MOST_LAUNCHES:
        raise UsageError(f"{path}: {LAUNCHES}: expected a list of 1 to {_MOST_LAUNCHES:,} launches")
    made = tuple(_launch(path, number, one) for number, one in enumerate(listed))
    return RangeCandidate(path, first, last, made)


def of_source(path: Path, text: bytes, launches: int) -> RangeCandidate:
    """The candidate that a source is. Raises UsageError if it is not one."""
    try:
        lines, replaced = launch_lines.read(text.decode(errors="replace"))
        first, last = _replaced(path, replaced, launches)
    except launch_lines.LineError as error:
        raise UsageError(f"{path}, line {error.line}: {visible(str(error))}") from error
    if not lines:
        raise UsageError(
            f"{path}: no comment `// kerncap: launch KERNEL<<<GRID, BLOCK>>>(ARGUMENTS)`, which says what is "
            "launched in place of the range's launches; a candidate for one of them is judged with --launch K"
        )
    if len(lines) > _MOST_LAUNCHES:
        raise UsageError(f"{path}: expected 1 to {_MOST_LAUNCHES:,} launches")
    made = tuple(_of_line(path, one) for one in lines)
    return RangeCandidate(path, first, last, made, text)


def _of_line(path: Path, said: launch_lines.LaunchLine) -> CandidateLaunch:
    place = f"line {said.line}"
    grid, block = (three((*sides, 1, 1)[:3]) for sides in (said.grid, said.block))
    if math.prod(grid) > _MOST_PROGRAMS:
        raise UsageError(f"{path}, {place}: grid: expected 1 to {_MOST_PROGRAMS:,} blocks")
    if math.prod(block) > _MOST_THREADS:
        raise UsageError(f"{path}, {place}: block: expected 1 to {_MOST_THREADS:,} threads")
    arguments = {str(number): value for number, value in enumerate(said.passed, 1)}
    return CandidateLaunch(place, said.kernel, grid, arguments, {}, block, said.shared_bytes)


def manifest_of(launch: CandidateLaunch, captured: Sequence[Manifest], path: Path) -> Manifest:
    """A launch of the candidate as a worker is given it; ``captured`` are those of the range.

    Raises UsageError for an argument that the range does not have.
    """
    arguments = tuple(
        _argument(f"{path}: {launch.place}: argument {name}", name, value, captured)
        for name, value in launch.arguments.items()
    )
    like = captured[0]
    language: Literal["triton", "cuda", "hip"] = "triton"
    grid, grid_source = launch.grid, None
    if isinstance(grid, str):
        grid_source = schema.GridSource(source=grid)
        numbers = tuple(one for one in arguments if not isinstance(one.value, _MEMORY))
        grid = _grid(f"{path}: {launch.place}: grid", grid_source, numbers)
    if launch.block is not None:
        language, source = "hip" if like.device.kind == "hip" else "cuda", None
        made = schema.Launch(
            grid=grid, ordinal=0, mode="native", block=launch.block, shared_bytes=launch.shared_bytes
        )
    else:
        mode: Literal["interpreter", "jit"] = "interpreter" if like.launch.mode == "interpreter" else "jit"
        options = {name: schema.scalar_value(value) for name, value in launch.options.items()}
        made = schema.Launch(grid=grid, ordinal=0, mode=mode, options=options, grid_source=grid_source)
        file = schema.StoredFile(path="source/candidate.py", size=0, sha256="0" * 64)  # nothing is stored
        source = schema.Source(file=file, entry=launch.kernel)
    kernel = schema.Kernel(name=launch.kernel, qualified_name=launch.kernel, language=language)
    return msgspec.structs.replace(
        like, kernel=kernel, arguments=arguments, launch=made, source=source, code=(), compiled=None
    )


def _grid(where: str, source: schema.GridSource, numbers: Sequence[schema.Argument]) -> Three:
    """What the text gives for these arguments; it is worked out, and not executed."""
    try:
        grid = recompute(source, {each.name: plain(each.value) for each in numbers})
    except GridUnknown as error:
        raise UsageError(f"{where}: {visible(str(error)[:200])}") from error
    if min(grid) < 1 or math.prod(grid) > _MOST_PROGRAMS:
        raise UsageError(f"{where}: it is {grid}: expected 1 to {_MOST_PROGRAMS:,} programs")
    return grid


def _literals(path: Path) -> dict[str, Any]:
    """The values of both names. Raises UsageError for what is no Python, or no literal."""
    try:
        tree = ast.parse(read_regular(path, _MOST_BYTES), filename=str(path))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{path}{line}: not Python: {getattr(error, 'msg', None) or error}") from error
    found: dict[str, Any] = {}
    for statement in tree.body:
        if isinstance(statement, ast.AnnAssign):
            targets: list[ast.expr] = [statement.target]
        elif isinstance(statement, ast.Assign):
            targets = statement.targets
        else:
            continue
        names = {target.id for target in targets if isinstance(target, ast.Name)} & {LAUNCHES, REPLACES}
        for name in names:
            if name in found:
                raise UsageError(f"{path}, line {statement.lineno}: {name} is assigned twice; once is read")
            try:
                assert statement.value is not None
                found[name] = ast.literal_eval(statement.value)
            except (AssertionError, ValueError, TypeError, RecursionError, MemoryError) as error:
                raise UsageError(
                    f"{path}, line {statement.lineno}: {name} is not a literal; it is read, not executed: "
                    "write numbers, texts, lists and dicts"
                ) from error
    return found


def _replaced(path: Path, value: Any, launches: int) -> tuple[int, int]:
    """First and last launch that are replaced, of a text such as ``0:3``."""
    if value is None:
        return 0, launches - 1
    said = re.fullmatch(r"(\d{1,4}):(\d{1,4})", value) if isinstance(value, str) else None
    first, stop = map(int, said.groups()) if said else (0, 0)
    if not 0 <= first < stop <= launches:
        shown = visible(repr(value)[:40])
        raise UsageError(f'{path}: {REPLACES} {shown}: expected "N:M", launches N to M-1 of {launches}')
    return first, stop - 1


def _launch(path: Path, number: int, said: Any) -> CandidateLaunch:
    place = f"{LAUNCHES}[{number}]"
    where = f"{path}: {place}"
    if not isinstance(said, dict) or not {"kernel", "grid", "arguments"} <= said.keys() <= {*_KEYS}:
        raise UsageError(f"{where}: expected a dict of kernel, grid, arguments, and options if there are any")
    kernel = said["kernel"]
    if not isinstance(kernel, str) or not kernel.isidentifier():
        raise UsageError(f"{where}: kernel {visible(repr(kernel)[:80])}: expected the name of a function")
    grid = said["grid"]
    arguments, options = said["arguments"], said.get("options", {})
    if isinstance(grid, str):
        return _checked(where, place, kernel, grid, arguments, options)
    grid = (grid,) if _is_int(grid) else grid
    if not isinstance(grid, list | tuple) or not 1 <= len(grid) <= 3 or not all(map(_is_int, grid)):
        raise UsageError(f"{where}: grid: expected one to three integers, or the text of a lambda")
    if min(grid) < 1 or math.prod(grid) > _MOST_PROGRAMS:
        raise UsageError(f"{where}: grid: expected 1 to {_MOST_PROGRAMS:,} programs")
    return _checked(where, place, kernel, three((*grid, 1, 1)[:3]), arguments, options)


def _checked(
    where: str, place: str, kernel: str, grid: Three | str, arguments: Any, options: Any
) -> CandidateLaunch:
    if not isinstance(arguments, dict) or not all(map(_is_name, arguments)):
        raise UsageError(f"{where}: arguments: expected a dict of values by parameter")
    for name, value in arguments.items():
        if not (value is None or isinstance(value, bool | int | float | str)):
            raise UsageError(f"{where}: argument {name}: expected a number, a text or None")
    if not isinstance(options, dict) or not all(
        name in _OPTIONS and _is_int(value) and 0 < value <= 1024 for name, value in options.items()
    ):
        raise UsageError(f"{where}: options: expected integers for {', '.join(_OPTIONS)}")
    return CandidateLaunch(place, kernel, grid, arguments, options)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_name(value: Any) -> bool:
    return isinstance(value, str) and value.isidentifier()


def _argument(where: str, name: str, value: Scalar, captured: Sequence[Manifest]) -> schema.Argument:
    of_launch = _OF_LAUNCH.fullmatch(value) if isinstance(value, str) else None
    if of_launch is None:
        return schema.Argument(name=name, role="runtime", value=schema.scalar_value(value))
    number, passed = int(of_launch[1]), of_launch[2]
    found = argument_of(where, number, passed, captured)
    return schema.Argument(name=name, role=found.role, value=found.value, signature=found.signature)


def argument_of(where: str, number: int, name: str, captured: Sequence[Manifest]) -> schema.Argument:
    """What a launch of the range was passed as ``name``. Raises UsageError, which begins with ``where``."""
    if number >= len(captured):
        raise UsageError(f"{where}: the range has the launches 0 to {len(captured) - 1}, and no {number}")
    found = next((each for each in captured[number].arguments if each.name == name), None)
    if found is None:
        names = ", ".join(visible(each.name) for each in captured[number].arguments)
        raise UsageError(f"{where}: launch {number} has no argument {visible(name)}; it has {names}")
    if isinstance(found.value, schema.FunctionValue | schema.OpaqueValue):
        raise UsageError(
            f"{where}: {number}.{visible(name)} is neither memory nor a number; pass another one"
        )
    return found
