"""A launch out of a ``.ttir`` file and texts that say what its arguments are."""

from __future__ import annotations

import pytest

from kerncap.errors import KerncapError
from kerncap.sanitizer.launch import DescriptorArgument, PointerArgument, ScalarArgument, TensorArgument
from kerncap.sanitizer.sources.ttir_file import launch_from_ttir

from ..ttir.texts import text

_ARGUMENTS = {"x_ptr": "f32[8]", "y_ptr": "f32[8]", "o_ptr": "f32[8]", "n": "8"}


def _tensor(said: str) -> TensorArgument:
    launch = launch_from_ttir(text("add_39"), (1,), {**_ARGUMENTS, "x_ptr": said})
    (first, *_) = launch.arguments
    assert isinstance(first, TensorArgument)
    return first


def test_a_launch() -> None:
    launch = launch_from_ttir(text("add_39"), (4, 2), _ARGUMENTS, "add.ttir")
    assert (launch.kernel, launch.grid, launch.program_count) == ("add", (4, 2, 1), 8)
    assert launch.configuration == {"file": "add.ttir"}
    assert launch.ttir == text("add_39")
    x, y, o, n = launch.arguments
    assert n == ScalarArgument("n", 8)
    for index, tensor in enumerate((x, y, o)):
        assert isinstance(tensor, TensorArgument)
        assert (tensor.storage, tensor.dtype, tensor.shape, tensor.strides) == (index, "float32", (8,), (1,))
        assert tensor.address % 256 == 0 and launch.storages[index].address == tensor.address
        assert launch.storages[index].size_bytes == 32
    assert launch.contents.read(0) is None


def test_storages_lie_far_apart() -> None:
    storages = launch_from_ttir(text("add_39"), (1,), {**_ARGUMENTS, "y_ptr": "f32[1000,1000,1000]"}).storages
    for before, after in zip(storages, storages[1:], strict=False):
        assert after.address - (before.address + before.size_bytes) >= 1 << 20


@pytest.mark.parametrize(
    ("said", "shape", "strides", "offset", "size"),
    [
        ("f32[4,8]", (4, 8), (8, 1), 0, 128),
        ("float32[4, 8]@strides(16,1)", (4, 8), (16, 1), 0, 4 * 56),
        ("fp32[4,8]@strides(0,-1)", (4, 8), (0, -1), 28, 32),
        ("f32[4]@offset(6)", (4,), (1,), 24, 40),
        ("f32[4]@storage(100)@offset(6)", (4,), (1,), 24, 400),
        ("f32[]", (), (), 0, 4),
        ("f32[0,5]", (0, 5), (5, 1), 0, 0),
        ("i32[3]", (3,), (1,), 0, 12),
    ],
)
def test_tensors(said: str, shape: tuple[int, ...], strides: tuple[int, ...], offset: int, size: int) -> None:
    launch = launch_from_ttir(text("add_39"), (1,), {**_ARGUMENTS, "x_ptr": said})
    tensor = launch.arguments[0]
    assert isinstance(tensor, TensorArgument)
    assert (tensor.shape, tensor.strides) == (shape, strides)
    assert tensor.address - launch.storages[0].address == offset
    assert launch.storages[0].size_bytes == size


@pytest.mark.parametrize("alignment", [1, 4, 16, 4096])
def test_an_alignment_is_exactly_that(alignment: int) -> None:
    address = _tensor(f"f32[8]@align({alignment})").address
    assert address % alignment == 0 and address % (2 * alignment) != 0


def test_a_null_pointer_and_scalars() -> None:
    launch = launch_from_ttir(text("add_39"), (1,), {**_ARGUMENTS, "x_ptr": "null", "n": "-0x10"})
    assert launch.arguments[0] == PointerArgument("x_ptr", 0)
    assert launch.arguments[3] == ScalarArgument("n", -16)


@pytest.mark.parametrize("name", ["descs_36", "descs_39"])
def test_a_descriptor_takes_a_tensor(name: str) -> None:
    said = {"a_desc": "f16[128,256]@strides(512,1)", "b_ptr": "f16[64]", "idx": "i32[64]", "M": "5", "N": "6"}
    launch = launch_from_ttir(text(name), (1, 1, 1), said)
    descriptor = launch.arguments[0]
    assert isinstance(descriptor, DescriptorArgument)
    assert (descriptor.shape, descriptor.strides, descriptor.block_shape) == ((128, 256), (512, 1), (16, 64))
    assert [one.value for one in launch.arguments[1:5] if isinstance(one, ScalarArgument)] == [
        128,
        256,
        512,
        1,
    ]


@pytest.mark.parametrize("name", ["tuples_36", "tuples_39"])
def test_the_parts_of_a_tuple_have_numbers(name: str) -> None:
    said = {"ptrs.0": "f32[64]", "ptrs.1": "f32[64]", "sizes.0": "64", "sizes.1": "60"}
    assert len(launch_from_ttir(text(name), (1,), said).arguments) == 4


def test_missing_and_unknown_arguments_are_one_line_with_the_parameters() -> None:
    with pytest.raises(KerncapError) as caught:
        launch_from_ttir(text("add_39"), (1,), {"x_ptr": "f32[8]", "size": "3"}, "add.ttir")
    assert str(caught.value) == (
        "add.ttir: no argument for y_ptr, o_ptr, n; no parameter is called size; "
        "add has x_ptr: ptr<f32>, y_ptr: ptr<f32>, o_ptr: ptr<f32>, n: i32"
    )


@pytest.mark.parametrize(
    ("name", "said", "message"),
    [
        ("x_ptr", "1000", "needs a tensor such as"),
        ("x_ptr", "f99[8]", "needs a tensor such as"),
        ("x_ptr", "f16[8]", "elements of 32 bits"),
        ("x_ptr", "f32[8]@strides(1,1)", "2 strides for 1 axes"),
        ("x_ptr", "f32[8]@speed(1)", "@speed is not understood"),
        ("x_ptr", "f32[8]@offset(1,2)", "@offset is not understood"),
        ("x_ptr", "f32[8]@strides(-1)@offset(0)", "begin before its storage"),
        ("x_ptr", "f32[8]@storage(4)", "its storage at 4"),
        ("x_ptr", "f32[8]@align(3)", "a power of two"),
        ("x_ptr", "f32[99999999999999,99999]", "more than"),
        ("x_ptr", "f32[1.5]", "needs a tensor such as"),
        ("n", "f32[8]", "needs a number"),
        ("n", "1.5", "needs a number"),
        ("n", "99999999999", "an integer of 32 bits"),
    ],
)
def test_arguments_that_cannot_be(name: str, said: str, message: str) -> None:
    with pytest.raises(KerncapError) as caught:
        launch_from_ttir(text("add_39"), (1,), {**_ARGUMENTS, name: said})
    assert message in str(caught.value) and name in str(caught.value)
    assert "\n" not in str(caught.value) and caught.value.exit_status == 2


@pytest.mark.parametrize("grid", [(), (0,), (1, 2, 3, 4), (1 << 31,)])
def test_grids_that_cannot_be(grid: tuple[int, ...]) -> None:
    with pytest.raises(KerncapError, match="a grid has one to three extents from 1"):
        launch_from_ttir(text("add_39"), grid, _ARGUMENTS)


def test_a_text_without_a_kernel() -> None:
    with pytest.raises(KerncapError, match="no public function"):
        launch_from_ttir("module { tt.func private @f(i32) }", (1,), {})
