"""One symbolic walk of a kernel: every memory operation, with its address, mask and path."""

from __future__ import annotations

from kerncap.sanitizer.findings import CHECKS
from kerncap.sanitizer.launch import (
    DescriptorArgument,
    Launch,
    PointerArgument,
    ScalarArgument,
    TensorArgument,
)
from kerncap.sanitizer.pointer_origins import pointer_origins, written_storages
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, Variable, boolean, const, land, unknown, var
from kerncap.sanitizer.symbolic.solve import Solver
from kerncap.sanitizer.ttir.ir import DescriptorType, Function, IntType, Module, Operation, Type
from kerncap.sanitizer.walk import arith, blocks, control, loops, memory, promises, reduce, shape, while_loop
from kerncap.sanitizer.walk.access import Target, Walked
from kerncap.sanitizer.walk.plan import plan_of, promising
from kerncap.sanitizer.walk.symbols import Symbols, symbols_of
from kerncap.sanitizer.walk.values import BlockPointer, Pointers, SymbolicValue, Tile
from kerncap.sanitizer.walk.walker import Handler, Unsupported, Walker, bytes_of, element_of

__all__ = ["Unsupported", "walk"]

_OPERATIONS: dict[str, Handler] = {
    **arith.OPERATIONS,
    **shape.OPERATIONS,
    **memory.OPERATIONS,
    **blocks.OPERATIONS,
    **control.OPERATIONS,
    **loops.OPERATIONS,
    **while_loop.OPERATIONS,
    **promises.OPERATIONS,
    **reduce.OPERATIONS,
}
# What checks ask for beyond where accesses go: what is stored, and promises of the text.
_OF_VALUES = frozenset(("uninit", "race"))


def _meaning(operation: Operation) -> Handler | None:
    handler = _OPERATIONS.get(operation.name)
    return _with_promises(handler) if handler is not None and promising(operation) else handler


def _with_promises(handler: Handler) -> Handler:
    def run(walker: Walker, operation: Operation) -> None:
        handler(walker, operation)
        promises.of_result(walker, operation)

    return run


def walk(
    module: Module,
    function: Function,
    launch: Launch,
    solver: Solver,
    checks: frozenset[str] = frozenset(CHECKS),
    symbols: Symbols | None = None,
) -> Walked:
    """Walk ``function`` with the launch's arguments; programs, lanes and iterations stay symbolic.

    ``symbols``: what stands for the launch's integers and its grid, where those are not numbers.

    The launch's arguments are bound to the function's parameters one by one (`binding.bind` has
    checked that they fit). ``checks`` are those that the result is for: what none of them looks at is
    left out (values that are stored, promises). Raises Unsupported where the kernel can't be followed at all.
    """
    symbols = symbols or symbols_of(launch, function)
    programs = tuple(_program(axis, extent) for axis, extent in enumerate(symbols.grid))
    walker = Walker(
        module=module,
        function=function,
        launch=launch,
        solver=solver,
        programs=(programs[0], programs[1], programs[2]),
        symbols=symbols,
        path=land(symbols.given, *map(_runs, programs, symbols.grid)),
        written=written_storages(module, function, launch),
        plan=plan_of(module, function, _meaning, bool(checks & _OF_VALUES), "promise" in checks),
        origins=pointer_origins(module, function),
    )
    for index, parameter in enumerate(function.arguments):
        walker.environment[parameter] = _argument(walker, index, parameter.type)
    if "promise" in checks:
        promises.of_arguments(walker)
    if function.body is not None:
        control.run_function(walker, function.body)
    return Walked(
        walker.programs, tuple(walker.accesses), tuple(walker.promises), tuple(walker.notes), symbols
    )


def _program(axis: int, extent: Expr) -> Variable:
    assert extent.high is not None
    return Variable(f"program_id({axis})", "program", 0, max(0, extent.high - 1))


def _runs(program: Variable, extent: Expr) -> Expr:
    """Whether there is such a program: a question only where the grid is not a number."""
    return TRUE if extent.kind == "const" else var(program) < extent


def _argument(walker: Walker, index: int, kind: Type) -> SymbolicValue:
    argument = walker.launch.arguments[index]
    if isinstance(argument, ScalarArgument):
        if index in walker.symbols.scalars:
            return Tile((), walker.symbols.scalars[index])
        if isinstance(kind, IntType) and isinstance(argument.value, int):  # of one bit
            return Tile((), boolean(bool(argument.value)))
        return Tile((), unknown("a float", ("float", repr(argument.value)), ()))
    base = Pointers((), (Target(TRUE, index, const(0)),))
    if isinstance(argument, TensorArgument | PointerArgument):
        return base
    assert isinstance(argument, DescriptorArgument)
    element = element_of(kind)
    block = argument.block_shape
    size = (
        bytes_of(element.block.element) if isinstance(element, DescriptorType) else argument.tensor.itemsize
    )
    return BlockPointer(
        base,
        tuple(map(const, argument.shape)),
        tuple(map(const, argument.strides)),
        tuple(const(0) for _ in block),
        tuple(block),
        size,
        host=True,
        descriptor=True,
    )
