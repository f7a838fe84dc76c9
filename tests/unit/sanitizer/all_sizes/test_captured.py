"""Which axis of a captured tensor is which size, and what has to be asked."""

from __future__ import annotations

import pytest

from kerncap.errors import UsageError
from kerncap.sanitizer.all_sizes.captured_sizes import described
from kerncap.sanitizer.all_sizes.stated_sizes import parse
from kerncap.sanitizer.launch import Argument, PointerArgument, ScalarArgument, TensorArgument


def tensor(name: str, shape: tuple[int, ...], strides: tuple[int, ...], storage: int = 0) -> TensorArgument:
    return TensorArgument(name, storage, 4096, "float32", 4, shape, strides)


def texts(arguments: list[Argument], *stated: str, **shapes: str) -> dict[str, str]:
    named = {one.name: one for one in arguments}
    integers = [one.name for one in arguments if isinstance(one, ScalarArgument)]
    pointers = [name for name in named if name not in integers]
    return described(named, parse(stated, integers, pointers), shapes, {"BLOCK": 64})


def number(name: str, value: float) -> ScalarArgument:
    return ScalarArgument(name, value)


def test_an_axis_as_long_as_a_size_was_is_that_size() -> None:
    found = texts(
        [
            tensor("x", (7, 30), (30, 1)),
            tensor("flat", (5, 42), (42, 1)),
            tensor("rest", (8, 1, 30), (30, 99, 1)),
            PointerArgument("none", 0),
            number("M", 7),
            number("N", 30),
            number("all", 210),
            number("scale", 0.5),
            number("on", True),
            number("stride", 30),
        ],
        "M=1..9,N=1..9,all=1..9,stride=N",
    )
    assert found == {
        "x": "float32[M, N]",
        "flat": "float32[all]",
        "rest": "float32[8, 1, N]",
        "none": "null",
        "scale": "0.5",
        "on": "true",
    }


@pytest.mark.parametrize(
    ("shape", "strides", "message"),
    [
        ((7, 7), (7, 1), "x: its axis 0 has 7 elements, as M and N had; say which"),
        ((3, 4), (9, 1), "x: its strides (9, 1) are not those of its shape; say how they follow"),
    ],
)
def test_a_shape_that_has_to_be_stated(
    shape: tuple[int, ...], strides: tuple[int, ...], message: str
) -> None:
    arguments = [tensor("x", shape, strides), number("M", 7), number("N", 7)]
    with pytest.raises(UsageError) as error:
        texts(arguments, "M=1..9,N=1..9")
    assert message in str(error.value)
    assert texts(arguments, "M=1..9,N=1..9", x=f"f32{list(shape)}") == {"x": f"f32{list(shape)}"}


@pytest.mark.parametrize(
    ("arguments", "stated", "message"),
    [
        ([number("M", 7), number("row", 7)], "M=1..9", "row was 7, as M was; say whether it follows"),
        ([number("M", 7), number("row", 8)], "M=1..9,row=M", "row was 8 in the captured launch, where M"),
        ([number("M", 7), PointerArgument("p", 64)], "M=1..9", "p: a pointer to memory of unknown extent"),
        (
            [number("M", 7), tensor("a", (7,), (1,)), tensor("b", (7,), (1,))],
            "M=1..9,a=0..M",
            "a and b share memory in the captured launch, so a may be written",
        ),
    ],
)
def test_what_is_asked(arguments: list[Argument], stated: str, message: str) -> None:
    with pytest.raises(UsageError) as error:
        texts(arguments, stated)
    assert message in str(error.value)
