"""Launches bound and compiled in this process, with nothing launched."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from kerncap.sanitizer.engine import sanitize
from kerncap.sanitizer.launch import DescriptorArgument, Launch, ScalarArgument, TensorArgument
from kerncap.sanitizer.sources import triton_hook
from kerncap.sanitizer.sources.triton_call import launches_of

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason="expects the target of a machine with no GPU"
)


class Pair(NamedTuple):
    x: Any
    n: Any


@triton.jit
def everything(a, desc, tup, pair, n, one, none, size: tl.constexpr, kind: tl.constexpr, flag, big, scale):
    pid = tl.program_id(0)
    tile = desc.load([pid * 16, 0])
    o = tl.arange(0, 16)
    tl.store(tup[0] + o, tl.load(a + o, mask=o < n))
    total = tl.load(a + o) * scale * one + pair.n + big + flag + tup[1]
    tl.store(pair.x + o, total.to(kind))
    desc.store([pid * 16, 0], tile)


@triton.autotune(
    [triton.Config({"B": 16}), triton.Config({"B": 32}), triton.Config({"B": 64})],
    key=["n"],
    reset_to_zero=["y"],
    prune_configs_by={"early_config_prune": lambda configs, named, **_: configs[:2]},
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def tuned(x, y, n, B: tl.constexpr, EVEN: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


@triton.jit
def copy(x, y, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=o < n), mask=o < n)


def call_everything(target: str | None) -> Launch:
    a, matrix = torch.zeros(64), torch.zeros(64, 128, dtype=torch.float16)
    descriptor = TensorDescriptor.from_tensor(matrix[:, :64], [16, 64])
    positional = (a, descriptor, (a, 5, None), Pair(a[1:], 7), 48, 1, None)
    named = {"size": 7, "kind": tl.float32, "flag": True, "big": 2**63, "scale": 1.5, "num_warps": 8}
    (launch,) = launches_of(everything, lambda meta: (meta["n"], 1), positional, named, target=target)
    return launch


def test_values_become_the_parameters_of_the_ttir() -> None:
    launch = call_everything(None)
    assert (launch.grid, launch.target) == ((48, 1, 1), "cuda:90")
    names = [argument.name for argument in launch.arguments]
    assert names == [
        *("a", "desc", "desc.shape.0", "desc.shape.1", "desc.stride.0", "desc.stride.1"),
        *("tup.0", "tup.1", "pair.x", "pair.n", "n", "flag", "big", "scale"),
    ]
    by_name = {argument.name: argument for argument in launch.arguments}
    descriptor, window = by_name["desc"], by_name["pair.x"]
    assert isinstance(descriptor, DescriptorArgument) and isinstance(window, TensorArgument)
    assert (descriptor.shape, descriptor.strides, descriptor.block_shape) == ((64, 64), (128, 1), (16, 64))
    assert (window.shape, window.itemsize, window.dtype) == ((63,), 4, "float32")
    assert window.address - launch.storages[window.storage].address == 4
    assert by_name["big"] == ScalarArgument("big", -(2**63))  # the same bits, signed
    assert len(launch.storages) == 2 and launch.storages[1].size_bytes == 64 * 128 * 2
    configuration = dict(launch.configuration)
    assert (configuration["one"], configuration["kind"], configuration["num_warps"]) == ("1", "fp32", "8")


@pytest.mark.parametrize("target", ["cuda:80", "hip:gfx942"])
def test_targets_without_descriptors_get_them_as_pointers(target: str) -> None:
    launch = call_everything(target)
    assert launch.target == target
    kinds = [type(argument).__name__ for argument in launch.arguments[:7]]
    assert kinds == ["TensorArgument", "TensorArgument", *["ScalarArgument"] * 5]
    assert [argument.name for argument in launch.arguments].count("desc.stride.1") == 2


def test_an_unknown_target_is_refused() -> None:
    with pytest.raises(ValueError, match="cuda:90 or hip:gfx942"):
        call_everything("metal")


def test_configurations_of_an_autotuner() -> None:
    x, y = torch.zeros(100), torch.ones(100)
    grid = lambda meta: (triton.cdiv(meta["n"], meta["B"]),)  # noqa: E731
    (one,) = launches_of(tuned, grid, (x, y, 100))
    assert (one.label, one.grid) == ("configuration 1 of 3", (7, 1, 1))
    assert not y.any()  # reset_to_zero, as before the launch
    both = launches_of(tuned, grid, (x, y, 100), all_configs=True)  # one is pruned
    assert sorted(launch.label for launch in both) == ["configuration 1 of 3", "configuration 2 of 3"]
    assert {launch.configuration["EVEN"] for launch in both} == {"False"}
    with pytest.raises(ValueError, match="Conflicting"):
        launches_of(tuned, grid, (x, y, 100), {"B": 8})


WARPS = [triton.Config({}, num_warps=warps, num_stages=stages) for warps in (2, 4) for stages in (2, 3)]


@triton.autotune(WARPS, key=[])
@triton.jit
def fill(y, B: tl.constexpr):
    tl.store(y + tl.arange(0, B), 1.0)


@triton.autotune(WARPS, key=[])
@triton.jit
def fill_by_warps(y):
    tl.store(y + tl.arange(0, 16 * tl.extra.cuda.num_warps()), 1.0)


def test_configurations_are_compiled_anew_only_for_options_that_the_kernel_reads(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    triton_hook.installed()
    compilation = triton_hook.load("compilation")
    compiled = []
    original = compilation.compile_source

    def counted(*arguments: Any) -> Any:
        compiled.append(original(*arguments))
        return compiled[-1]

    monkeypatch.setattr(compilation, "compile_source", counted)
    launches = launches_of(fill, (1,), (torch.zeros(64),), {"B": 32}, all_configs=True)
    assert len(launches) == 4 and {one.ttir for one in launches} == set(compiled) and len(compiled) == 1
    assert sorted(one.configuration["num_warps"] for one in launches) == ["2", "2", "4", "4"]
    compiled.clear()
    launches = launches_of(fill_by_warps, (1,), (torch.zeros(64),), all_configs=True)
    assert len({one.ttir for one in launches}) == len(compiled) == 2
    launches = launches_of(fill_by_warps, (1,), (torch.zeros(40),), all_configs=True)
    assert {one.configuration["num_warps"] for one in launches if sanitize(one).findings} == {"4"}


def test_contents_are_read_when_they_are_asked_for() -> None:
    x, y = torch.arange(16.0), torch.zeros(8)
    (launch,) = launches_of(copy, (1,), (x, y, 8), {"B": 8})
    x += 1
    contents = launch.contents.read(0)
    assert contents is not None
    x += 1
    data = contents.whole().view(np.float32)
    assert np.array_equal(data, np.arange(2.0, 18.0, dtype=np.float32))
    x += 1
    assert launch.contents.read(0) is contents and contents.whole()[0] == data.view(np.uint8)[0]  # once


def test_storages_that_share_bytes_are_one() -> None:
    memory = np.zeros(64, np.float32)
    whole, part = torch.from_numpy(memory), torch.from_numpy(memory[16:32])
    (launch,) = launches_of(copy, (1,), (whole, part, 8), {"B": 8})
    assert [storage.size_bytes for storage in launch.storages] == [256]
    assert [argument.storage for argument in launch.arguments[:2]] == [0, 0]  # type: ignore[union-attr]


def test_reinterpreted_and_empty_tensors() -> None:
    raw = torch.zeros(8, 4, dtype=torch.int8)
    (launch,) = launches_of(copy, (1,), (triton.reinterpret(raw, tl.float8e5), torch.zeros(0), 1), {"B": 8})
    first, second = launch.arguments[:2]
    assert isinstance(first, TensorArgument) and isinstance(second, TensorArgument)
    assert (first.dtype, first.shape) == ("float8_e5m2", (8, 4))
    assert (second.address, launch.storages[second.storage].size_bytes) == (0, 0)
    (launch,) = launches_of(copy, (1,), (triton.reinterpret(raw, tl.int32), raw, 1), {"B": 8})
    first = launch.arguments[0]
    assert isinstance(first, TensorArgument)
    assert (first.dtype, first.itemsize, first.shape, first.strides) == ("int32", 4, (8, 1), (1, 1))


class Reversed:
    """The rows of a tensor from the last to the first, which torch has no view for."""

    def __init__(self, base: torch.Tensor) -> None:
        self.base, self.dtype, self.device, self.shape = base, base.dtype, base.device, base.shape

    def data_ptr(self) -> int:
        return self.base.data_ptr() + self.base[:-1].numel() * self.base.element_size()

    def stride(self) -> tuple[int, ...]:
        return (-self.base.stride(0), *self.base.stride()[1:])

    def element_size(self) -> int:
        return self.base.element_size()

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.base.untyped_storage()


def test_an_object_in_the_place_of_a_tensor_has_its_memory() -> None:
    x = torch.zeros(8, 4)
    (launch,) = launches_of(copy, (1,), (x, Reversed(x), 8), {"B": 8})
    first, second = launch.arguments[:2]
    assert isinstance(first, TensorArgument) and isinstance(second, TensorArgument)
    assert [storage.size_bytes for storage in launch.storages] == [128]
    assert (second.address - first.address, second.strides) == (28 * 4, (-4, 1))


def test_alignment_specialises() -> None:
    x, y = torch.zeros(64), torch.zeros(64)
    (aligned,) = launches_of(copy, (1,), (x, y, 16), {"B": 8})
    (shifted,) = launches_of(copy, (1,), (x[1:], y, 17), {"B": 8})
    assert aligned.ttir.count("tt.divisibility = 16") == 3
    assert shifted.ttir.count("tt.divisibility = 16") == 1


def test_calls_that_do_not_fit_raise_what_triton_raises() -> None:
    x = torch.zeros(8)
    with pytest.raises(TypeError):
        launches_of(copy, (1,), (x,), {"B": 8})
    with pytest.raises(KeyError, match="unrecognised"):
        launches_of(copy, (1,), (x, x, 8), {"B": 8, "num_wraps": 2})
    with pytest.raises(RuntimeError, match="meta"):
        launches_of(copy, (1,), (x.to("meta"), x, 8), {"B": 8})
    assert not x.any()


def test_nothing_is_launched() -> None:
    x, y = torch.ones(8), torch.zeros(8)
    launches_of(copy, (1,), (x, y, 8), {"B": 8})
    assert not y.any()


@pytest.mark.skipif(
    "KERNCAP_OLD_TRITON" not in os.environ, reason="KERNCAP_OLD_TRITON: a folder with another Triton"
)
def test_another_generation_of_triton() -> None:
    environment = {**os.environ, "PYTHONPATH": os.environ["KERNCAP_OLD_TRITON"]}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(Path(__file__))]
    del environment["KERNCAP_OLD_TRITON"]
    finished = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=300, cwd=Path(__file__).parents[4]
    )
    assert finished.returncode == 0, finished.stdout


def test_a_program_that_turns_line_information_off_keeps_it_for_findings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TRITON_DISABLE_LINE_INFO", "1")
    (launch,) = launches_of(copy, (1,), (torch.zeros(16), torch.zeros(16), 7), {"B": 8})
    assert Path(__file__).name in launch.ttir
    assert os.environ["TRITON_DISABLE_LINE_INFO"] == "1"


@pytest.mark.parametrize("broken", ["", "no wait"])
def test_a_gluon_kernel_is_checked_with_its_shared_memory(broken: str) -> None:
    copied = pytest.importorskip("tests.unit.sanitizer.shared.kernels", reason="no Triton with Gluon").copied
    x, out = torch.zeros(2048), torch.zeros(2048)
    (launch,) = launches_of(copied, (1,), (x, out, 3), {"BLOCK": 512, "BROKEN": broken})
    found = {(one.check, one.location.frame and one.location.frame.line) for one in sanitize(launch).findings}
    assert bool(found) == bool(broken) and {check for check, _ in found} <= {"shared"}
    (launch,) = launches_of(copied, (1,), (x, out, 4), {"BLOCK": 512, "BROKEN": ""})
    assert {one.check for one in sanitize(launch).findings} == {"oob"}  # one block is fetched too many
