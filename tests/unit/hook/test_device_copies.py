"""The pinned ring: pieces, writers and errors, with host memory in the device's place."""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import threading
import types
from pathlib import Path
from typing import Any

import pytest
import torch

from kerncap.api.diverge import repeated
from kerncap.format.contract import default

from .conftest import CHUNK

ROOM = 1 << 30


class Event:
    """Happens a few polls after it was recorded, like one of a busy device."""

    def __init__(self) -> None:
        self.polls = 0

    def record(self, stream: Any = None) -> None:
        self.polls = random.Random(7).randrange(4)

    def query(self) -> bool:
        self.polls -= 1
        return self.polls < 0


@pytest.fixture
def cuda(package: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    from kerncap_triton import region_copies as copying  # type: ignore[import-not-found,unused-ignore]
    from kerncap_triton import torch_device as cuda

    fake = types.SimpleNamespace(
        Event=Event,
        Stream=lambda device: object(),
        device=lambda index: contextlib.nullcontext(),
        stream=lambda stream: contextlib.nullcontext(),
        current_stream=lambda: types.SimpleNamespace(synchronize=lambda: None),
        mem_get_info=lambda index: (ROOM, 1 << 40),
        memory_reserved=lambda index: 300,
        memory_allocated=lambda index: 100,
        OutOfMemoryError=torch.OutOfMemoryError,
    )
    monkeypatch.setattr(torch, "cuda", fake)
    ring = [torch.empty(copying.PIECE, dtype=torch.uint8) for _ in range(3)]
    monkeypatch.setattr(cuda, "_pinned_ring", lambda _: ring)
    monkeypatch.setattr(copying, "writer_count", lambda: 4)
    return types.SimpleNamespace(module=cuda, copying=copying)


def regions_of(*sizes: int) -> list[tuple[int, Any]]:
    from kerncap_triton.reachable_memory import Region  # type: ignore[import-not-found,unused-ignore]

    generator = torch.Generator().manual_seed(3)
    found = []
    for number, size in enumerate(sizes):
        data = torch.randint(0, 256, (size,), dtype=torch.uint8, generator=generator)
        found.append((number, Region(data.data_ptr(), size, "cuda", 0, "x", data.untyped_storage())))
    return found


def contents(region: Any) -> bytes:
    return ctypes.string_at(region.base, region.size)


def test_store_compare_and_restore(cuda: Any, tmp_path: Path) -> None:
    regions = regions_of(45 << 20, 1000, (8 << 20) + 5)
    offsets, total = [], 0
    for _, region in regions:
        offsets.append(total)
        total += -(-region.size // 4096) * 4096
    fd = os.open(tmp_path / "pre", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, total)
    cuda.module.copy_out(regions, cuda.copying.Store(fd, offsets, CHUNK), 5.0)
    before = [contents(region) for _, region in regions]
    for (_, region), offset, expected in zip(regions, offsets, before, strict=True):
        assert os.pread(fd, region.size, offset) == expected

    cuda.module.as_bytes(regions[0][1])[30 << 20] += 1
    cuda.module.as_bytes(regions[0][1])[-1] += 1
    cuda.module.as_bytes(regions[1][1])[999] += 1
    out = os.open(tmp_path / "post", os.O_RDWR | os.O_CREAT)
    compare = cuda.copying.Compare(fd, offsets, CHUNK, out)
    cuda.module.copy_out(regions, compare, 5.0)
    assert sorted(compare.chunks) == [(0, 120), (0, 179), (1, 0)]
    for position, (number, chunk) in enumerate(compare.chunks):
        data = contents(regions[number][1])[chunk * CHUNK : (chunk + 1) * CHUNK]
        assert os.pread(out, len(data), position * CHUNK) == data

    for number, region in regions:
        changed = [chunk for found, chunk in compare.chunks if found == number]
        cuda.module.copy_in(region, fd, offsets[number], changed, CHUNK)
    assert [contents(region) for _, region in regions] == before
    os.close(fd)
    os.close(out)


def test_digests_are_those_of_the_same_bytes_elsewhere(cuda: Any) -> None:
    """On the device, on the host, and in a reproducer, which `diverge` compares with what was traced."""
    from kerncap_triton import hashing  # type: ignore[import-not-found,unused-ignore]
    from kerncap_triton.reachable_memory import Region

    class Held:
        def read(self, state: str, region: int, start: int, size: int) -> bytes:
            return contents(regions[region][1])[start : start + size]

    step = default.chunk_bytes
    regions = regions_of(1, step, 7 * step + 5)
    on_device = hashing.digests([region for _, region in regions], step, 5.0)
    on_host = [Region(each.base, each.size, "cpu", 0, "x", *each.storages) for _, each in regions]
    assert hashing.digests(on_host, step, 5.0) == on_device
    held: Any = Held()
    assert [repeated._digest(held, number, 0, each.size) for number, each in regions] == on_device
    cuda.module.as_bytes(regions[2][1])[-1] += 1
    changed = hashing.digests([region for _, region in regions], step, 5.0)
    assert [now == before for now, before in zip(changed, on_device, strict=True)] == [True, True, False]


def test_pieces_take_the_buffers_in_turns(cuda: Any) -> None:
    """Whichever writer is the first to end: a native launch may reach the ring, so its contents count."""
    size = cuda.copying.PIECE
    [(_, region)] = regions = regions_of(5 * size)
    third = threading.Event()

    def work(number: int, offset: int, address: int, length: int) -> None:
        if offset == 2 * size:
            third.set()
        elif offset == 0:
            assert third.wait(60)

    cuda.module.copy_out(regions, work, 60.0)
    ring = cuda.module._pinned_ring(torch)
    expected = [contents(region)[at * size : (at + 1) * size] for at in (3, 4, 2)]
    assert [bytes(buffer.numpy()) for buffer in ring] == expected


def test_an_error_of_one_writer_ends_the_copy(cuda: Any) -> None:
    def full(region: int, offset: int, address: int, length: int) -> None:
        if offset >= 16 << 20:
            raise OSError(28, "No space left on device")

    threads = threading.active_count()
    with pytest.raises(OSError, match="No space left"):
        cuda.module.copy_out(regions_of(64 << 20), full, 5.0)
    assert threading.active_count() == threads


def test_a_copy_that_never_ends_is_given_up(cuda: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Event, "query", lambda self: False)
    with pytest.raises(Exception, match="did not finish"):
        cuda.module.copy_out(regions_of(1000), lambda *piece: None, 0.01)
    assert not cuda.module.drain(Event(), 0.01)


def test_host_memory_is_restored_by_chunks(package: Any, tmp_path: Path) -> None:
    from kerncap_triton import reachable_memory
    from kerncap_triton import region_copies as copying

    now = ctypes.create_string_buffer(3 * CHUNK)
    (tmp_path / "image").write_bytes(b"-" * 4096 + b"a" * (3 * CHUNK))
    region = reachable_memory.Region(ctypes.addressof(now), 3 * CHUNK - 1, "cpu", 0, "x", now)
    image = os.open(tmp_path / "image", os.O_RDONLY)
    copying.restore_host(region, image, 4096, CHUNK)
    os.close(image)
    assert now.raw == b"a" * (3 * CHUNK - 1) + b"\0"
