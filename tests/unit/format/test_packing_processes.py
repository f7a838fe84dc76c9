"""Units of large memory packed in processes: as threads do it, and by threads once the processes are gone."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap.format import Reproducer, ReproducerWriter, chunks
from kerncap.format.packing import CHUNK_BYTES, UNIT_BYTES, Packer, Unit
from kerncap.format.packing_processes import Processes
from tests.golden.contents import noise
from tests.unit.format import small

NOISE = noise(CHUNK_BYTES, 1)
TEXT = b"text" * (CHUNK_BYTES // 4)
UNITS = [NOISE + bytes(CHUNK_BYTES) + TEXT + NOISE + TEXT + bytes(3) + b"end", noise(UNIT_BYTES, 2), b"short"]


@pytest.fixture
def processes() -> Iterator[Processes]:
    found = Processes(2, 4, "blake3")
    yield found
    found.close()


def _packed(processes: Processes, data: bytes, buffer: memoryview) -> Unit:
    buffer[: len(data)] = data
    while (unit := processes.pack(buffer[: len(data)], buffer)) is None:
        os.sched_yield()  # until one has started
    return unit


def test_processes_pack_as_threads_do(processes: Processes) -> None:
    buffers = [processes.buffer(slot) for slot in (0, 3)]
    for number, data in enumerate(UNITS):
        found, by_thread = (
            _packed(processes, data, buffers[number % 2]),
            Packer("blake3").pack(memoryview(data)),
        )
        assert (found.data, found.digests) == (data, by_thread.digests)
        assert found.payloads == by_thread.payloads


def test_a_process_that_ends_leaves_its_unit_to_the_thread(processes: Processes) -> None:
    buffer = processes.buffer(1)
    _packed(processes, NOISE, buffer)
    assert processes.pack(memoryview(NOISE), buffer) is None, "it is in no memory of theirs"
    processes._process.kill_all()
    while processes.pack(buffer[:CHUNK_BYTES], buffer) is not None:
        os.sched_yield()
    assert processes.pack(buffer[:CHUNK_BYTES], buffer) is None


def test_a_reproducer_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pre = b"".join(UNITS)
    source = tmp_path / "state"
    source.write_bytes(pre)
    names = set()
    monkeypatch.setattr(chunks, "LARGE_BYTES", 1)
    monkeypatch.setattr(chunks, "LEAST_PROCESSES", 1)
    for folder, at_least in (("threads", 1 << 60), ("processes", 1)):
        monkeypatch.setattr(chunks, "MANY_BYTES", at_least)
        with source.open("rb") as file:
            with ReproducerWriter(tmp_path / folder, "k", len(pre)) as writer:
                writer.add_region_pre(0, len(pre), file)
                path = writer.seal(small.manifest(writer.finish_memory(), [len(pre)]))
        with Reproducer.open(path) as reproducer:
            reproducer.verify_files(memory=True)
            assert reproducer.read("pre", 0, 0, len(pre)) == pre
        names.add(path.name)
    assert len(names) == 1
