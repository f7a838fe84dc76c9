"""What the source promised the compiler, collected so that the checks can hold it to that."""

from __future__ import annotations

from kerncap.sanitizer.launch import DescriptorArgument, ScalarArgument
from kerncap.sanitizer.symbolic.expr import TRUE, Expr, const
from kerncap.sanitizer.ttir.ir import Dense, Operation, TensorType
from kerncap.sanitizer.walk.access import Promise
from kerncap.sanitizer.walk.values import Pointers, Tile, lane_variables
from kerncap.sanitizer.walk.walker import Handler, Walker

KINDS = ("divisibility", "contiguity", "constancy")


def of_result(walker: Walker, operation: Operation) -> None:
    """The promises that hang on an operation's result; to be called after it was executed."""
    attributes = operation.attributes
    present = {kind: _amounts(attributes[f"tt.{kind}"]) for kind in KINDS if f"tt.{kind}" in attributes}
    if not present or not walker.recording or not operation.results:
        return
    result = walker[operation.results[0]]
    if isinstance(result, Pointers):
        value: Expr = walker.address_of(result)
    elif isinstance(result, Tile):
        value = result.expr
    else:
        return
    if value.sort != "int":
        return
    ones = (1,) * max(1, len(result.shape))
    for kind, amounts in present.items():
        walker.promises.append(
            Promise(
                operation=operation,
                kind=kind,  # type: ignore[arg-type]
                location=operation.location,
                path=walker.path,
                loops=walker.loops,
                lanes=lane_variables(result.shape),
                shape=result.shape,
                value=value,
                amounts=amounts,
                contiguity=present.get("contiguity", ones),
                subject=operation.results[0].source_name,
            )
        )


def _amounts(attribute: object) -> tuple[int, ...]:
    if isinstance(attribute, Dense):
        numbers = tuple(int(one) for one in attribute.values)
        axes = attribute.type.shape[0] if isinstance(attribute.type, TensorType) else 1
        return numbers * axes if len(numbers) == 1 else numbers
    if isinstance(attribute, tuple | list):
        return tuple(int(one) for one in attribute)
    return (int(attribute),)  # type: ignore[call-overload]


def of_arguments(walker: Walker) -> None:
    """Specialisations: the compiler took pointers and integers for multiples of 16."""
    function = walker.function
    for index, attributes in enumerate(function.argument_attributes):
        amount = attributes.get("tt.divisibility")
        if amount is None:
            continue
        argument = walker.launch.arguments[index]
        if isinstance(argument, ScalarArgument):
            if not isinstance(argument.value, int):
                continue
            number = int(argument.value)
        elif isinstance(argument, DescriptorArgument):
            number = argument.tensor.address
        else:
            number = argument.address
        walker.promises.append(
            Promise(
                operation=None,
                kind="divisibility",
                location=function.arguments[index].location,
                path=TRUE,
                loops=(),
                lanes=(),
                shape=(),
                value=const(number),
                amounts=(int(amount),),
                contiguity=(1,),
                subject=argument.name,
            )
        )


def _assume(walker: Walker, operation: Operation) -> None:
    if not walker.recording:
        return
    condition = walker.tile(operation.operands[0])
    about = operation.attributes.get("about")
    walker.promises.append(
        Promise(
            operation=operation,
            kind="assume",
            location=operation.location,
            path=walker.path,
            loops=walker.loops,
            lanes=lane_variables(condition.shape),
            shape=condition.shape,
            value=condition.expr,
            amounts=(),
            contiguity=(),
            subject=operation.operands[0].source_name if about is None else about.source_name,
            comment=str(operation.attributes.get("comment", "")),
            about=None if about is None else walker.tile(about).expr,
        )
    )


OPERATIONS: dict[str, Handler] = {"llvm.intr.assume": _assume}
