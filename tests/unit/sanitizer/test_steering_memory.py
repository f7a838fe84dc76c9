"""Which of a launch's memory decides where memory is touched, and what is compared with the rest."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("triton")

import triton
import triton.language as tl

from kerncap.sanitizer.steering_memory import Steers, steers

from .compiled import launch_of


@triton.jit
def many(index, mask, count, divisor, flag, shift, data, limit_ptr, out, threshold, scratch, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(data + tl.load(index + i), mask=tl.load(mask + i) > 0, other=0)
    for _ in range(tl.load(count)):
        x += 1
    x = x // tl.load(divisor + i) << tl.load(shift + i)
    limit = tl.load(limit_ptr + i)
    if tl.load(flag) > 7:
        tl.store(out + i, x)
    x = tl.where(limit > 40, x, tl.where(limit == threshold, 3, tl.maximum(x, -5)))
    tl.store(out + B + i, x)


@triton.jit
def numbers(data, out, n, times, seed, factor, stride, B: tl.constexpr):
    i = tl.arange(0, B)
    x = tl.load(data + i * stride, mask=i < n, other=0.0) * factor
    for _ in range(times):
        x += tl.rand(seed, i)
    tl.store(out + i, x)


@triton.jit
def through_memory(data, scratch, out, B: tl.constexpr):
    i = tl.arange(0, B)
    tl.store(scratch + i, tl.load(data + i))
    tl.store(out + tl.load(scratch + i), 1.0)


@triton.jit
def waiting(data, out, B: tl.constexpr):
    x = 0
    while x == 0:
        x = tl.load(data, volatile=True)
    tl.store(out, 1)


@triton.jit
def elsewhere(data, out, B: tl.constexpr):
    place = tl.load(data).to(tl.pointer_type(tl.int32))
    tl.store(out, tl.load(place))


@triton.jit
def scattered(index, flag, added, reached, stored, rows, B: tl.constexpr):
    i = tl.arange(0, B)
    at = tl.load(index + i)
    tl.atomic_add(added + at, 1)
    tl.atomic_add(rows + tl.program_id(0) * B + i, 1, mask=tl.load(flag + i) > 0)
    j = 0
    for _ in range(tl.load(flag)):
        j += 1
    tl.atomic_max(reached + j, 1)
    tl.store(stored + at, 1)
    tl.store(rows + i, 1)


def found(kernel: Any, signature: dict[str, str], **values: Any) -> tuple[set[str], Steers]:
    launch = launch_of(kernel, (1,), signature, {"B": 16}, **values)
    steered = steers(launch)
    names = {"?"} if steered.storages is None else {launch.storages[n].name for n in steered.storages}
    return names, steered


def test_addresses_masks_counts_conditions_and_divisors_steer() -> None:
    names = ("index", "mask", "count", "divisor", "flag", "shift", "data", "limit_ptr", "out")
    shapes = dict.fromkeys((*names, "scratch"), (32,))
    signature = dict.fromkeys(names, "*i32") | {"threshold": "i32", "scratch": "*i32"}
    steered, said = found(many, signature, threshold=17, **shapes)
    assert steered == {"index", "mask", "count", "divisor", "flag", "shift"}
    assert sorted(said.numbers) == [-5, 17, 40] and not said.waits


def test_integers_that_are_passed() -> None:
    integers = ("n", "times", "seed", "factor", "stride")
    signature = {"data": "*fp32", "out": "*fp32", **dict.fromkeys(integers, "i32")}
    values: Any = {"n": 9, "times": 3, "seed": 1234, "factor": 5, "stride": 2}
    assert found(numbers, signature, data=(32,), out=(16,), **values)[1].free == {"seed", "factor"}


def test_what_goes_through_memory_steers_too() -> None:
    signature = {"data": "*i32", "scratch": "*i32", "out": "*fp32"}
    assert found(through_memory, signature, data=(16,), scratch=(16,), out=(16,))[0] == {"data", "scratch"}


def test_a_loop_that_waits_is_known() -> None:
    steered, said = found(waiting, {"data": "*i32", "out": "*i32"}, data=(1,), out=(1,))
    assert steered == {"data"} and said.waits


def test_what_reads_anywhere_leaves_nothing_free() -> None:
    assert found(elsewhere, {"data": "*i64", "out": "*i32"}, data=(1,), out=(1,))[0] >= {"data"}


def test_what_is_changed_at_places_that_memory_decides() -> None:
    names = ("index", "flag", "added", "reached", "stored", "rows")
    launch = launch_of(
        scattered, (1,), dict.fromkeys(names, "*i32"), {"B": 16}, **dict.fromkeys(names, (16,))
    )
    said = steers(launch)
    assert {launch.storages[n].name for n in said.added} == {"added", "reached"}
    assert {launch.storages[n].name for n in said.stored} == {"stored"}
