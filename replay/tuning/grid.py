"""The grid of another configuration, from the callable that the application gave: `lambda META: (…,)`.

The stored text is worked out by `formula` over the values that the callable closed over. What can't be is
refused by name: then the parameters that it reads keep their captured values.
"""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from kerncap.format import schema
from kerncap.format.schema import GridSource, Manifest
from kerncap.replay.tuning.formula import MAX_LENGTH, Evaluator, TensorFacts, Unknown

Grid = tuple[int, int, int]
_MAX_EXTENT = 2**31 - 1
_MAX_STATEMENTS = 200
_MAX_CUTS = 400  # ends of a lambda that are tried: inspect gives the lines around it, cut anywhere


class GridUnknown(Exception):
    """The grid can't be recomputed; the message is the reason, as the end of a sentence."""


def recompute(
    source: GridSource, arguments: Mapping[str, Any], bindings: Mapping[str, Any] | None = None
) -> Grid:
    """The grid that the stored callable gives for ``arguments``, padded to three numbers.

    Values are Python's numbers, bools, strings, None, tuples, `TensorFacts`; `arguments_of` makes them of a
    manifest. ``bindings`` replaces values of names that the callable closed over. Raises GridUnknown.
    """
    return GridFunction(source).grid(arguments, bindings)


class GridFunction:
    """A stored grid callable, parsed once."""

    def __init__(self, source: GridSource) -> None:
        self._source = source
        self._candidates = _functions(source.source)
        if not self._candidates:
            raise GridUnknown("no function could be read in its stored text")

    @property
    def reads(self) -> frozenset[str]:
        """Names of arguments that the grid may depend on, as far as they stand in the text as strings."""
        return read_names(self._source)

    def grid(self, arguments: Mapping[str, Any], bindings: Mapping[str, Any] | None = None) -> Grid:
        """As `recompute`."""
        names = {name: plain(value) for name, value in self._source.bindings.items()}
        names = {name: value for name, value in names.items() if value is not _NO_VALUE} | dict(
            bindings or {}
        )
        # `cdiv` imported by name is a function that no format stores, and one that is known here.
        found: set[Grid] = set()
        problem: Unknown | None = None
        for function in self._candidates:
            try:
                found.add(_as_grid(_call(function, dict(arguments), names, self._source.unresolved)))
            except Unknown as error:
                problem = error
        if len(found) == 1:
            return found.pop()
        if found:
            raise GridUnknown("its line holds several functions, which give different grids")
        raise GridUnknown(str(problem))


def read_names(source: GridSource) -> frozenset[str]:
    """The strings in a stored grid callable: names of the arguments that it reads."""
    found: set[str] = set()
    for function in _functions(source.source):
        found.update(
            node.value
            for node in ast.walk(function)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )
    return frozenset(found)


def arguments_of(manifest: Manifest) -> dict[str, Any]:
    """What the captured grid callable was given, in the form of `recompute`; opaque values are left out."""
    found = {}
    for argument in manifest.arguments:
        value = plain(argument.value, manifest)
        if value is not _NO_VALUE:
            found[argument.name] = value
    return found


_NO_VALUE = object()


def plain(value: schema.Value, manifest: Manifest | None = None) -> Any:
    """A stored value as one to calculate with; a marker that is no such value for what has none."""
    if isinstance(value, schema.NoneValue):
        return None
    if isinstance(value, schema.BoolValue | schema.StrValue):
        return value.value
    if isinstance(value, schema.IntValue):
        return int(value.value)
    if isinstance(value, schema.FloatValue):
        text = value.value
        return float(text) if text.lstrip("-") in ("inf", "nan") else float.fromhex(text)
    if isinstance(value, schema.DtypeValue):
        return value.name
    if isinstance(value, schema.SequenceValue):
        items = tuple(plain(item, manifest) for item in value.items)
        return _NO_VALUE if _NO_VALUE in items else items
    if isinstance(value, schema.TensorValue) and manifest is not None:
        view = manifest.views[value.view]
        return TensorFacts(tuple(view.shape), tuple(view.strides), view.itemsize, view.dtype)
    return _NO_VALUE


def has_value(value: object) -> bool:
    """Whether `plain` found a value."""
    return value is not _NO_VALUE


# --- reading -----------------------------------------------------------------------------------------


_Function = ast.Lambda | ast.FunctionDef


def _functions(text: str) -> list[_Function]:
    """The functions in the lines that `inspect.getsource` gave; of a def the outermost alone."""
    if len(text) > MAX_LENGTH:
        return []
    for attempt in (text, textwrap.dedent(text), f"({text.strip()})", f"_({text.strip().rstrip(',')})"):
        try:
            tree = ast.parse(attempt.strip())
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        first = tree.body[0] if tree.body else None
        if isinstance(first, ast.FunctionDef):
            return [first]
        return _outermost_lambdas(tree)
    return _cut_lambdas(text)


def _outermost_lambdas(tree: ast.AST) -> list[_Function]:
    found: list[_Function] = []
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Lambda):
            found.append(node)
        else:
            waiting.extend(ast.iter_child_nodes(node))
    return found


def _cut_lambdas(text: str) -> list[_Function]:
    """Lambdas in lines that are no whole statement: each up to the last place where it is an expression."""
    found: list[_Function] = []
    start = text.find("lambda")
    while start >= 0:
        ends = [len(text)] + [i for i in range(len(text) - 1, start, -1) if text[i] in ")],\n}#;"]
        end = start
        for cut in ends[:_MAX_CUTS]:
            try:
                tree = ast.parse(f"({text[start:cut]}\n)", mode="eval").body
            except (SyntaxError, ValueError, RecursionError, MemoryError):
                continue
            if isinstance(tree, ast.Tuple) and tree.elts:  # `lambda m: (…), x`: the first is it
                tree = tree.elts[0]
            if isinstance(tree, ast.Lambda):
                found.append(tree)
                end = cut
                break
        start = text.find("lambda", max(end, start + 6))
    return found


# --- working out ---------------------------------------------------------------------------------------


def _call(
    function: _Function, arguments: dict[str, Any], names: Mapping[str, Any], unresolved: Sequence[str]
) -> Any:
    given = function.args
    parameters = [*given.posonlyargs, *given.args]
    evaluator = Evaluator(names, unresolved)
    local: dict[str, Any] = {}
    defaults = dict(zip(reversed(parameters), reversed(given.defaults), strict=False))
    for number, parameter in enumerate(parameters):
        if number == 0:
            local[parameter.arg] = arguments
        elif parameter.arg in names:  # a default, as the capture found it
            local[parameter.arg] = names[parameter.arg]
        elif parameter in defaults:
            local[parameter.arg] = evaluator.value(defaults[parameter])
        else:
            raise Unknown(f"it takes {parameter.arg}, whose value was not stored at capture")
    if not parameters:
        raise Unknown("it takes no argument")
    inner = Evaluator({**names, **local}, unresolved)
    if isinstance(function, ast.Lambda):
        return inner.value(function.body)
    if len(list(ast.walk(function))) > _MAX_STATEMENTS * 20:
        raise Unknown("it is too long")
    done, value = _block(function.body, inner)
    if not done:
        raise Unknown("it returns nothing")
    return value


def _block(statements: Sequence[ast.stmt], evaluator: Evaluator) -> tuple[bool, Any]:
    """Whether a return was reached, and what it gave."""
    for statement in statements:
        if isinstance(statement, ast.Return):
            return True, None if statement.value is None else evaluator.value(statement.value)
        if isinstance(statement, ast.If):
            branch = statement.body if evaluator.value(statement.test) else statement.orelse
            done, value = _block(branch, evaluator)
            if done:
                return True, value
        elif isinstance(statement, ast.Assign):
            value = evaluator.value(statement.value)
            for target in statement.targets:
                _assign(target, value, evaluator)
        elif isinstance(statement, ast.AnnAssign) and statement.value is not None:
            _assign(statement.target, evaluator.value(statement.value), evaluator)
        elif isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
            changed = ast.BinOp(ast.Name(statement.target.id, ast.Load()), statement.op, statement.value)
            evaluator.names[statement.target.id] = evaluator.value(changed)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue  # a docstring
        elif not isinstance(statement, ast.Pass | ast.Assert):
            raise Unknown(f"line {statement.lineno} ({type(statement).__name__}) is not supported")
    return False, None


def _assign(target: ast.expr, value: Any, evaluator: Evaluator) -> None:
    if isinstance(target, ast.Name):
        evaluator.names[target.id] = value
    elif isinstance(target, ast.Tuple | ast.List) and isinstance(value, tuple):
        if len(target.elts) != len(value):
            raise Unknown(f"{len(value)} values for {len(target.elts)} names")
        for each, part in zip(target.elts, value, strict=True):
            _assign(each, part, evaluator)
    else:
        raise Unknown("it assigns to more than names")


def _as_grid(value: Any) -> Grid:
    numbers = value if isinstance(value, tuple) else (value,)
    if not 1 <= len(numbers) <= 3:
        raise Unknown(f"it gives {len(numbers)} dimensions")
    found = []
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise Unknown("it gives something other than numbers")
        if number != number or not 0 <= number <= _MAX_EXTENT:
            raise Unknown(f"it gives a dimension of {number}")
        found.append(int(number))
    padded = (found + [1, 1])[:3]
    return padded[0], padded[1], padded[2]
