"""The state of a launch that may be dropped: kept on the device, judged there, fetched if it is kept."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from .conftest import CHUNK
from .test_device_copies import cuda

__all__ = ["cuda"]  # the device's stand-in: host tensors in its place


@pytest.fixture
def hook(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook's modules, taking every region for one on a device."""
    from kerncap_triton import conditions, memory_files, memory_state, reachable_memory  # type: ignore[import-not-found,unused-ignore]

    monkeypatch.setattr(memory_state, "is_on_device", lambda region: True)
    monkeypatch.setattr(cuda.module, "quiet", contextlib.nullcontext)
    return types.SimpleNamespace(
        cuda=cuda.module,
        conditions=conditions,
        images=memory_files,
        reachable_memory=reachable_memory,
        state=memory_state,
    )


def take(hook: Any, folder: Path, on_device: bool, **tensors: Any) -> tuple[Any, Any]:
    """The memory of these tensors, and its state now."""
    reachable = hook.reachable_memory.ReachableMemory()
    for name, tensor in tensors.items():
        reachable.add(name, tensor)
    reachable.close()
    fd = os.open(folder / "image", os.O_RDWR | os.O_CREAT | os.O_TRUNC)
    state = hook.state.State(reachable, hook.images.Image(fd, {}), CHUNK, 5.0)
    state.take(on_device)
    return reachable, state


def image_of(state: Any, number: int, size: int) -> bytes:
    image = ctypes.create_string_buffer(size)
    state.read(number, 0, ctypes.addressof(image), size)
    return image.raw


@pytest.mark.parametrize("on_device", [True, False])
def test_compare_restore_and_fetch(hook: Any, tmp_path: Path, on_device: bool) -> None:
    one = torch.randint(0, 256, (9 << 20,), dtype=torch.uint8)
    two = torch.randint(0, 256, (1001,), dtype=torch.uint8)
    before = [one.clone(), two.clone()]
    _, state = take(hook, tmp_path, on_device, one=one, empty=torch.empty(0), two=two)
    assert sorted(state.clones) == ([0, 2] if on_device else [])
    assert (os.fstat(state.image.fd).st_blocks == 0) == on_device
    assert state.compare() == []
    one[3 * CHUNK + 5] += 1
    one[-1] += 1
    two[0] += 1
    assert sorted(state.compare()) == [(0, 3), (0, 35), (2, 0)]
    state.restore()
    assert state.compare() == [] and torch.equal(one, before[0]) and torch.equal(two, before[1])
    two[7] += 1
    state.fetch()
    assert not state.clones
    assert image_of(state, 0, one.numel()) == before[0].numpy().tobytes()
    assert image_of(state, 2, two.numel()) == before[1].numpy().tobytes()
    out = os.open(tmp_path / "post", os.O_RDWR | os.O_CREAT)
    assert state.compare(out) == [(2, 0)]
    assert os.pread(out, CHUNK, 0) == two.numpy().tobytes()


def test_what_would_take_more_than_half_of_what_is_free_goes_to_the_image(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.ones(1000, dtype=torch.uint8)
    for free, clones in [(2000, 1), (1800, 1), (1799, 0)]:  # torch itself keeps 200 more
        monkeypatch.setattr(torch.cuda, "mem_get_info", lambda index, free=free: (free, 1 << 40))
        _, state = take(hook, tmp_path, True, x=x)
        assert len(state.clones) == clones
        assert (image_of(state, 0, 1000) == b"\1" * 1000) == (not clones)


def test_an_allocation_that_fails_after_all_goes_to_the_image(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise torch.cuda.OutOfMemoryError("out of memory")

    monkeypatch.setattr(hook.cuda, "_clone", full)
    _, state = take(hook, tmp_path, True, x=torch.ones(10))
    assert not state.clones and state.compare() == []


def expected(name: str, tensor: Any, before: Any) -> str | None:
    """The same judgement, element by element in Python."""
    found = []
    for index in torch.cartesian_prod(*(torch.arange(n) for n in tensor.shape)).view(-1, tensor.dim()):
        place = tuple(map(int, index))
        now = float(tensor[place])
        same = tensor[place].numpy().tobytes() == before[place].numpy().tobytes()
        if not math.isfinite(now) and not same:
            found.append((place, now))
    if not found:
        return None
    place, value = found[0]
    return (
        f"{name}[{', '.join(map(str, place))}] = {value}, {len(found)} element{'s' if len(found) > 1 else ''}"
    )


@pytest.mark.parametrize("on_device", [True, False])
@pytest.mark.parametrize("limit", [1, 3, 7, 1000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16])
def test_nonfinite_in_pieces_finds_what_the_launch_wrote(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_device: bool, limit: int, dtype: Any
) -> None:
    monkeypatch.setattr(hook.conditions, "PIECE_ELEMENTS", limit)
    generator = torch.Generator().manual_seed(limit)
    for shape in [(7,), (2, 3, 5), (4, 6)]:
        base = torch.zeros(200, dtype=dtype)
        views = {
            "plain": base[3 : 3 + math.prod(shape)].view(shape),
            "turned": base[1 : 1 + math.prod(shape)].view(shape[::-1]).permute(*range(len(shape))[::-1]),
            "wide": torch.as_strided(base, shape, [17 * n + 1 for n in range(len(shape))]),
        }
        for name, view in views.items():
            base.zero_()
            base[torch.randint(0, 200, (9,), generator=generator)] = float("nan")
            earlier = base.clone()
            _, state = take(hook, tmp_path, on_device, view=view)
            base[torch.randint(0, 200, (9,), generator=generator)] = float("inf")
            reachable = hook.reachable_memory.ReachableMemory()
            reachable.add(name, view)
            reachable.close()
            then = torch.as_strided(earlier, shape, view.stride(), view.storage_offset())
            assert hook.conditions.nonfinite(reachable, state) == expected(name, view, then)


def test_a_repeated_dimension_is_looked_at_once(hook: Any, tmp_path: Path) -> None:
    x = torch.zeros(2, 1)
    reachable, state = take(hook, tmp_path, True, x=x.expand(2, 1 << 40))
    x[1] = float("nan")
    assert hook.conditions.nonfinite(reachable, state) == "x[1, 0] = nan, 1 element"


def test_a_launch_without_a_nonfinite_value_brings_nothing_to_the_host(
    hook: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y = torch.ones(1000), torch.ones(10, dtype=torch.float8_e5m2)
    reachable, state = take(hook, tmp_path, True, x=x, y=y, n=torch.ones(4, dtype=torch.int32))

    def fetched(*_: Any) -> None:
        raise AssertionError("a copy of the device's bytes")

    with monkeypatch.context() as watched:
        watched.setattr(hook.cuda, "copy_out", fetched)
        watched.setattr(hook.state.State, "bytes_of", fetched)
        x[5] = 3.0
        assert hook.conditions.nonfinite(reachable, state) is None
        x[5] = float("inf")
        with pytest.raises(AssertionError, match="a copy"):
            hook.conditions.nonfinite(reachable, state)
    x[5] = 1.0
    y.view(torch.uint8)[3] = 0x7C
    assert hook.conditions.nonfinite(reachable, state) == "y[3] = inf, 1 element"
