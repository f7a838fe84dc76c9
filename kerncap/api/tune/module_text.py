"""A candidate for several launches, a Python module, with other numbers in its `LAUNCHES`."""

from __future__ import annotations

import ast

from kerncap.replay.ranges.candidate import LAUNCHES
from kerncap.replay.tuning.point import Point
from kerncap.replay.tuning.space import ALL_OPTIONS


def edited(text: str, given: Point) -> str:
    """The text with these values in its one launch; all else stays as it is."""
    launch = _launch(ast.parse(text))
    edits: list[tuple[ast.expr, str]] = []
    for key, names in (
        ("arguments", given.keys() - ALL_OPTIONS),
        ("options", given.keys() & set(ALL_OPTIONS)),
    ):
        values = _entries(launch).get(key)
        had = _entries(values) if isinstance(values, ast.Dict) else {}
        edits += [(had[name], repr(given[name])) for name in names if name in had]
        added = "".join(f'"{name}": {given[name]!r}, ' for name in given if name in names - had.keys())
        if added and isinstance(values, ast.Dict):
            edits.append((values, "{" + added))  # in front of what is there
        elif added:
            edits.append((launch, "{" + f'"{key}": {{{added[:-2]}}}, '))
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


def _launch(tree: ast.Module) -> ast.Dict:
    for statement in tree.body:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        if isinstance(statement, ast.AnnAssign):
            targets = [statement.target]
        if any(isinstance(target, ast.Name) and target.id == LAUNCHES for target in targets):
            assert isinstance(statement, ast.Assign | ast.AnnAssign)
            listed = statement.value
            if isinstance(listed, ast.List | ast.Tuple) and isinstance(listed.elts[0], ast.Dict):
                return listed.elts[0]
    raise ValueError(f"no {LAUNCHES}")


def _entries(node: ast.Dict) -> dict[object, ast.expr]:
    return {
        key.value: value
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant)
    }
