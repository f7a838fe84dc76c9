"""Arguments of a Python call against the parameters of real TTIR functions of two generations."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kerncap.errors import KerncapError
from kerncap.sanitizer.binding import BindingError, bind, describe, expand, parameters
from kerncap.sanitizer.launch import (
    Argument,
    DescriptorArgument,
    PointerArgument,
    ScalarArgument,
    TensorArgument,
)
from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import Function

from .ttir.texts import real


def _tensor(name: str, shape: tuple[int, ...] = (64,)) -> TensorArgument:
    return TensorArgument(name, 0, 4096, "float32", 4, shape, (1,) * len(shape))


def _kernel(arguments: str) -> Function:
    return read_module(f"module {{ tt.func public @k({arguments}) {{ tt.return }} }}").kernel


def _descriptor(block: tuple[int, ...] = (16, 64)) -> DescriptorArgument:
    return DescriptorArgument("a_desc", _tensor("a_desc", (128, 256)), (128, 256), (256, 1), block)


@pytest.mark.parametrize("name", ["descs_36", "descs_39"])
def test_a_descriptor_is_followed_by_its_shape_and_strides(name: str) -> None:
    kernel = real(name).kernel
    assert [one.name for one in parameters(kernel)] == ["a_desc", "b_ptr", "idx", "M", "N"]
    bound = expand(
        kernel,
        {
            "a_desc": _descriptor(),
            "b_ptr": _tensor("b_ptr"),
            "idx": _tensor("idx"),
            "M": ScalarArgument("M", 5),
            "N": ScalarArgument("N", 6),
            "B": ScalarArgument("B", 16),
        },
    )
    assert len(bound) == len(kernel.arguments)
    scalars = [one.value for one in bound[1:5] if isinstance(one, ScalarArgument)]
    assert scalars == [128, 256, 256, 1]
    assert [one.name for one in bound[5:]] == ["b_ptr", "idx", "M", "N"]


@pytest.mark.parametrize("name", ["tuples_36", "tuples_39"])
def test_tuples_are_found_by_their_parts(name: str) -> None:
    kernel = real(name).kernel
    given: dict[str, Argument] = {
        "ptrs.0": _tensor("ptrs.0"),
        "ptrs.1": _tensor("ptrs.1"),
        "sizes.0": ScalarArgument("sizes.0", 10),
        "sizes.1": ScalarArgument("sizes.1", 20),
    }
    assert list(expand(kernel, given)) == list(given.values())


def test_the_parts_of_a_named_tuple_are_found_by_order() -> None:
    kernel = _kernel('%a: i32 loc("t.rows"), %b: i32 loc("t.columns")')
    bound = expand(kernel, {"t.0": ScalarArgument("t.0", 3), "t.1": ScalarArgument("t.1", 4)})
    assert [one.name for one in bound] == ["t.0", "t.1"]


def test_what_was_specialised_away_is_dropped() -> None:
    kernel = real("add_39").kernel
    given = {name: _tensor(name) for name in ("x_ptr", "y_ptr", "o_ptr")}
    bound = expand(kernel, {"B": ScalarArgument("B", 1024), "n": ScalarArgument("n", 7), **given})
    assert [one.name for one in bound] == ["x_ptr", "y_ptr", "o_ptr", "n"]


def test_without_names_the_order_decides() -> None:
    kernel = _kernel("%arg0: !tt.ptr<f32>, %arg1: i32")
    x, one, n = _tensor("x"), ScalarArgument("stride", 1), ScalarArgument("n", 9)
    assert expand(kernel, {"x": x, "n": n}) == (x, n)
    assert expand(kernel, {"x": x, "stride": one, "n": n}) == (x, n)
    with pytest.raises(BindingError, match="3 arguments for the 2 parameters"):
        expand(kernel, {"x": x, "a": n, "n": n})


def test_a_missing_argument_lists_the_parameters() -> None:
    with pytest.raises(BindingError) as caught:
        expand(real("add_39").kernel, {"x_ptr": _tensor("x_ptr")})
    assert str(caught.value) == (
        "add: no argument for y_ptr, o_ptr, n; it has "
        "x_ptr: ptr<f32>, y_ptr: ptr<f32>, o_ptr: ptr<f32>, n: i32"
    )
    assert isinstance(caught.value, KerncapError) and caught.value.exit_status == 2


def test_a_tensor_is_never_dropped() -> None:
    kernel = _kernel('%x: !tt.ptr<f32> loc("x")')
    with pytest.raises(BindingError, match="no parameter y"):
        expand(kernel, {"x": _tensor("x"), "y": _tensor("y")})


@pytest.mark.parametrize(
    ("type_", "given", "held"),
    [
        ("i32", 5, 5),
        ("i32", -5, -5),
        ("i32", 2**32 - 1, -1),
        ("i64", 2**63, -(2**63)),
        ("i32", True, 1),
        ("i1", 1, True),
        ("f32", 3, 3.0),
    ],
)
def test_scalars_are_held_as_ttir_holds_them(type_: str, given: float, held: float) -> None:
    (bound,) = bind(_kernel(f"%x: {type_}"), [ScalarArgument("x", given)])
    assert isinstance(bound, ScalarArgument)
    assert bound.value == held and type(bound.value) is type(held)


@pytest.mark.parametrize(
    ("type_", "given", "message"),
    [
        ("i32", ScalarArgument("x", 2**32), "an integer of 32 bits, found x = 4294967296"),
        ("i32", ScalarArgument("x", 1.5), "needs an integer"),
        ("i1", ScalarArgument("x", 2), "true or false"),
        ("i32", _tensor("x"), r"found the tensor x \(float32\[64\]\)"),
        ("f32", PointerArgument("x", 16), "needs a number, found the address 0x10"),
        ("!tt.ptr<f32>", ScalarArgument("x", 5), "needs a tensor or an address"),
        ("!other.thing", ScalarArgument("x", 5), "cannot|can be bound"),
    ],
)
def test_an_argument_of_another_kind(type_: str, given: Argument, message: str) -> None:
    with pytest.raises(BindingError, match=message) as caught:
        bind(_kernel(f"%x: {type_}"), [given])
    assert "\n" not in str(caught.value) and "parameter x" in str(caught.value)


def test_a_pointer_takes_an_address() -> None:
    null = PointerArgument("x", 0)
    assert bind(_kernel("%x: !tt.ptr<f32>"), [null]) == (null,)


def test_a_descriptor_must_fit() -> None:
    kernel = real("descs_39").kernel
    given: dict[str, Argument] = {
        "a_desc": _descriptor(),
        "b_ptr": _tensor("b_ptr"),
        "idx": _tensor("idx"),
        "M": ScalarArgument("M", 5),
        "N": ScalarArgument("N", 6),
    }
    with pytest.raises(BindingError, match=r"blocks of \[16, 64\]"):
        expand(kernel, {**given, "a_desc": _descriptor((16, 32))})
    with pytest.raises(BindingError, match="needs a tensor descriptor"):
        expand(kernel, {**given, "a_desc": _tensor("a_desc")})
    with pytest.raises(BindingError, match="of 1 axes where the kernel has one of 2"):
        expand(kernel, {**given, "a_desc": replace(_descriptor(), shape=(128,), strides=(1,))})
    bound = list(expand(kernel, given))
    bound[1] = ScalarArgument("a_desc.shape.0", 129)
    with pytest.raises(BindingError, match=r"a_desc.shape.0 is 129, but the descriptor a_desc has 128 there"):
        bind(kernel, bound)
    with pytest.raises(BindingError, match="should be followed by 4 integers"):
        parameters(_kernel("%d: !tt.tensordesc<16x64xf16>, %m: i32"))


def test_the_count_must_agree() -> None:
    with pytest.raises(BindingError, match="0 arguments for 1 parameters; it has x: i32"):
        bind(_kernel("%x: i32"), [])
    assert describe(_kernel("")) == "no parameters"
