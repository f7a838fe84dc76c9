"""A candidate for several launches, a Python module, with other numbers in its `LAUNCHES`."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from kerncap.replay.ranges.candidate import LAUNCHES
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.space import ALL_OPTIONS


def edited(text: str, points: Sequence[Point]) -> str:
    """The text with these values, one point for each of its launches; all else stays as it is."""
    edits: list[tuple[ast.expr, str]] = []
    for launch, given in zip(_launches(ast.parse(text)), points, strict=True):
        edits += _edits(launch, given)
    data = text.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for node, new in sorted(edits, key=lambda edit: (-edit[0].lineno, -edit[0].col_offset)):
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        end = begin + 1 if isinstance(node, ast.Dict) else end
        data = data[:begin] + new.encode() + data[end:]
    return data.decode()


def _edits(launch: ast.Dict, given: Point) -> Iterator[tuple[ast.expr, str]]:
    """The text in place of an expression, or of the bracket that a dict begins with."""
    for key, names in (
        ("arguments", given.keys() - ALL_OPTIONS),
        ("options", given.keys() & set(ALL_OPTIONS)),
    ):
        values = _entries(launch).get(key)
        had = _entries(values) if isinstance(values, ast.Dict) else {}
        yield from ((had[name], repr(given[name])) for name in names if name in had)
        added = "".join(f'"{name}": {given[name]!r}, ' for name in given if name in names - had.keys())
        if added and isinstance(values, ast.Dict):
            yield values, "{" + added  # in front of what is there
        elif added:
            yield launch, "{" + f'"{key}": {{{added[:-2]}}}, '


def _launches(tree: ast.Module) -> list[ast.Dict]:
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(target, ast.Name) and target.id == LAUNCHES for target in targets):
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            listed = statement.value
            assert isinstance(listed, ast.List | ast.Tuple)  # a literal that was read
            return [each for each in listed.elts if isinstance(each, ast.Dict)]
    raise ValueError(f"no {LAUNCHES}")


def _entries(node: ast.Dict) -> dict[object, ast.expr]:
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }
