"""What the reader makes of real TTIR of two generations of Triton."""

from __future__ import annotations

import pytest

from kerncap.sanitizer.ttir import read_module
from kerncap.sanitizer.ttir.ir import (
    Dense,
    DescriptorType,
    FloatType,
    Frame,
    IntType,
    OpaqueType,
    Operation,
    PointerType,
    TensorType,
    Type,
)
from tests.counted_work import calls_of

from .texts import NAMES, operations, real, text

F16, F32, I32 = FloatType("f16", 16), FloatType("f32", 32), IntType(32)


def _is_known(type_: Type) -> bool:
    if isinstance(type_, TensorType):
        return _is_known(type_.element)
    if isinstance(type_, PointerType):
        return _is_known(type_.pointee)
    return not isinstance(type_, OpaqueType)


@pytest.mark.parametrize("name", NAMES)
def test_every_value_of_a_real_kernel_has_a_type_an_owner_and_a_place(name: str) -> None:
    module = real(name)
    orders = []
    for operation in operations(module):
        orders.append(operation.order)
        for index, result in enumerate(operation.results):
            assert _is_known(result.type), f"{operation.name}: {result.name}"
            assert result.owner is operation and result.index == index
        for operand in operation.operands:
            assert operand.owner is not None
        assert operation.parent is not None and operation in operation.parent.operations
        for region in operation.regions:
            assert region.parent is operation
            assert all(block.parent is region for block in region.blocks)
    assert orders == sorted(set(orders))
    assert any(operation.location.frames for operation in operations(module))


def test_the_same_text_gives_the_same_order_and_names() -> None:
    first, second = (
        [(o.order, o.name, tuple(r.name for r in o.results)) for o in operations(real("flow_39"))]
        for _ in range(2)
    )
    assert first == second


@pytest.mark.parametrize("name", NAMES)
def test_a_text_without_locations_reads_as_the_same_operations(name: str) -> None:
    stripped = "\n".join(
        line
        for line in (_without_locations(line) for line in text(name).split("\n"))
        if not line.startswith("#loc")
    )
    assert "loc(" not in stripped

    def shape(operation: Operation) -> tuple[object, ...]:
        return (
            operation.name,
            [value.name for value in operation.operands],
            [value.type for value in operation.results],
            [(block.label, [value.name for value in values]) for block, values in operation.successors],
            repr(operation.attributes),
        )

    assert [shape(o) for o in operations(read_module(stripped))] == [shape(o) for o in operations(real(name))]


def _without_locations(line: str) -> str:
    if line.startswith("#loc"):
        return line
    while " loc(" in line:
        start = line.index(" loc(")
        depth = 0
        for end in range(start + 4, len(line)):
            depth += (line[end] == "(") - (line[end] == ")")
            if depth == 0:
                line = line[:start] + line[end + 1 :]
                break
    return line


def test_a_matmul() -> None:
    module = real("matmul_39")
    kernel = module.kernel
    assert kernel.name == "mm" and kernel.public
    assert [value.source_name for value in kernel.arguments][:4] == ["a_ptr", "b_ptr", "c_ptr", "M"]
    assert kernel.arguments[0].type == PointerType(F16)
    assert kernel.argument_attributes[:2] == ({"tt.divisibility": 16}, {})
    assert kernel.body is not None
    entry, early, rest = kernel.body.blocks
    branch = entry.operations[-1]
    assert branch.name == "cf.cond_br"
    assert branch.successors == ((early, ()), (rest, ()))
    assert branch.operands[0].owner is entry.operations[-2]

    (loop,) = operations(module, "scf.for")
    assert [value.name for value in loop.operands] == ["%c0_i32", "%2", "%c1_i32", "%a_22", "%b_30", "%cst"]
    assert [value.name for value in loop.results] == ["%acc#0", "%acc#1", "%acc#2"]
    assert loop.results[2].type == TensorType((64, 64), F32)
    counter, *carried = loop.regions[0].entry.arguments
    assert counter.name == "%k" and counter.type == I32
    assert [value.name for value in carried] == ["%a_34", "%b_35", "%acc_36"]
    assert loop.attributes["unsigned"] is False

    first, second = [o for o in operations(module, "tt.load") if o.parent is loop.regions[0].entry]
    assert first.results[0].type == TensorType((64, 32), F16)
    assert first.segment("ptr") is carried[0]
    assert first.segment("other") is not None
    assert second.segment("mask") is not None and second.segment("other") is None

    (dot,) = operations(module, "tt.dot")
    assert dot.attributes["inputPrecision"] == "tf32"
    (scan,) = operations(module, "tt.scan")
    assert scan.attributes == {"axis": 1, "reverse": False}
    assert [o.name for o in scan.regions[0].entry.operations] == ["arith.addf", "tt.scan.return"]
    assert scan.operands == (loop.results[2],)
    (described,) = operations(module, "tt.make_tensor_descriptor")
    assert described.results[0].type == DescriptorType(TensorType((64, 32), F16))
    (printed,) = operations(module, "tt.print")
    assert [value.name for value in printed.operands] == ["%pm_7"]


def test_promises_are_kept_with_the_operation() -> None:
    (found,) = [o for o in operations(real("matmul_39")) if "tt.contiguity" in o.attributes]
    assert found.name == "arith.remsi"
    assert found.attributes["tt.contiguity"] == Dense((64,), TensorType((1,), I32))


def test_locations_name_variables_and_unfold_call_sites() -> None:
    values = {value.name: value for o in operations(real("matmul_39")) for value in o.results}
    assert values["%pid"].location.name == "pid"
    assert values["%pid"].location.frames == (Frame("kernel.py", 4, 9),)
    rounded = values["%num_m"].location
    assert rounded.name == "num_m"
    assert rounded.frames == (Frame("triton/language/standard.py", 43, 13), Frame("kernel.py", 5, 11))
    # loc("acc"(#loc122)) over loc("b"(…)) over loc("a"(…)): the outermost name is the value's.
    assert values["%acc#2"].location.name == "acc"


def test_access_flags() -> None:
    for name in ("add_36", "add_39"):
        first, _ = operations(real(name), "tt.load")
        assert (first.attributes["cache"], first.attributes["evict"]) == ("cg", "evict_last")
        assert first.attributes["isVolatile"] is True
        (store,) = operations(real(name), "tt.store")
        assert (store.attributes["cache"], store.attributes["evict"]) == ("wb", "evict_first")
        assert store.segment("value") is store.operands[1] and store.segment("mask") is store.operands[2]


def test_atomics() -> None:
    for name in ("atom_36", "atom_39"):
        first, second, *_ = operations(real(name), "tt.atomic_rmw")
        assert [first.attributes[key] for key in ("rmw_op", "sem", "scope")] == ["fadd", "relaxed", "gpu"]
        assert [second.attributes[key] for key in ("rmw_op", "sem", "scope")] == ["add", "acq_rel", "cta"]
        assert second.segment("mask") is second.operands[2]
        (swap,) = operations(real(name), "tt.atomic_cas")
        assert swap.attributes["sem"] == "acquire" and swap.results[0].type == I32
        (loop,) = operations(real(name), "scf.while")
        assert loop.regions[0].entry.operations[-1].name == "scf.condition"
        assert loop.regions[1].entry.operations[-1].name == "scf.yield"


def test_atomic_accesses_of_newer_triton() -> None:
    module = real("atomic_access_39")
    scalar, tile = operations(module, "tt.atomic_load")
    assert (scalar.attributes["sem"], scalar.attributes["scope"]) == ("acquire", "gpu")
    assert scalar.results[0].type == I32 and tile.results[0].type == TensorType((32,), I32)
    assert tile.attributes["operand_segments"] == {"ptr": 0, "mask": 1}
    store = operations(module, "tt.atomic_store")[1]
    assert store.attributes["sem"] == "release"
    assert store.attributes["operand_segments"] == {"ptr": 0, "value": 1, "mask": 2}
    (poll,) = operations(module, "tt.atomic_poll")
    assert poll.attributes["operand_segments"] == {"ptr": 0, "expected": 1}
    assert poll.results[0].type == IntType(1)


def test_descriptors_of_both_generations_are_one_type() -> None:
    for name in ("descs_36", "descs_39"):
        module = real(name)
        block = TensorType((16, 64), F16)
        assert module.kernel.arguments[0].type == DescriptorType(block)
        first, second = operations(module, "tt.make_tensor_descriptor")
        assert first.results[0].type == DescriptorType(block)
        assert second.results[0].type == DescriptorType(TensorType((1, 64), F16))
        (gathered,) = operations(module, "tt.descriptor_gather")
        assert gathered.results[0].type == block
        (store,) = operations(module, "tt.descriptor_store")
        assert [type(value.type) for value in store.operands] == [
            DescriptorType,
            IntType,
            IntType,
            TensorType,
        ]
        (reduced,) = operations(module, "tt.descriptor_reduce")
        assert reduced.attributes["kind"] == "add"


def test_block_pointers_of_older_triton() -> None:
    module = real("blockptr_older")
    made = operations(module, "tt.make_tensor_ptr")[0]
    block = PointerType(TensorType((64, 32), F16))
    assert made.results[0].type == block
    assert made.attributes["order"] == (1, 0)
    assert len(made.operands) == 7
    (load,) = operations(module, "tt.load")
    assert load.results[0].type == TensorType((64, 32), F16)
    assert load.attributes["boundaryCheck"] == (0, 1) and load.attributes["padding"] == "zero"
    (moved,) = operations(module, "tt.advance")
    assert moved.results[0].type == block
    (store,) = operations(module, "tt.store")
    assert store.attributes["boundaryCheck"] == (0,)
    assert store.attributes["operand_segments"] == {"ptr": 0, "value": 1}


def test_scales_of_dot_scaled_are_told_apart() -> None:
    both, left = operations(real("scaled_39"), "tt.dot_scaled")
    assert both.segment("a_scale") is both.operands[1] and both.segment("b_scale") is both.operands[3]
    assert left.segment("b_scale") is None and left.segment("c") is left.operands[3]
    assert (left.attributes["lhs"], left.attributes["fastMath"]) == ("e5m2", False)


def test_functions_that_are_called() -> None:
    module = real("flow_39")
    assert [function.public for function in module.functions.values()].count(True) == 1
    (call,) = operations(module, "tt.call")
    callee = module.functions[call.attributes["callee"]]
    assert [value.type for value in call.results] == list(callee.result_types)
    assert len(call.operands) == len(callee.arguments)


def test_a_matmul_is_read_in_linear_work() -> None:
    source = text("matmul_39")
    assert calls_of(lambda: read_module(source)) < 1.5 * len(source)
