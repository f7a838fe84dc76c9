"""An allocator's arena becomes the pages that matter, and zeros around them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.capture.payloads import CompleteRecord, LaunchRecord
from kerncap.capture.zero_ranges import split
from kerncap.errors import CaptureError
from kerncap.format import schema
from kerncap.format.region_sources import StripedFiles
from tests.unit.capture.recorded import native_payload

BASE, PAGE, SIZE = 0x7F4000000000, 2 << 20, 512 << 20
CHUNK = schema.CHUNK_BYTES


@pytest.fixture
def state(tmp_path: Path) -> Iterator[StripedFiles]:
    """A pre-state: one byte at 300 MiB, in a file of holes."""
    descriptor = os.open(tmp_path / "pre", os.O_RDWR | os.O_CREAT)
    os.ftruncate(descriptor, SIZE)
    os.pwrite(descriptor, b"x", 300 << 20)
    yield StripedFiles([descriptor])
    os.close(descriptor)


def launch(words: tuple[int, ...] = (), **changes: Any) -> LaunchRecord:
    data = b"".join(word.to_bytes(8, "little") for word in words)
    payload = {
        **native_payload(0),
        "regions": [{"base": BASE, "size": SIZE, "kind": "device", "device": 1, "reason": "parameter 0"}],
        "pre_offsets": [0], "views": [], "sparse": True,
        "parameters": {"bytes": data.hex(), "layout": None},
    }  # fmt: skip
    return msgspec.convert({**payload, **changes}, LaunchRecord)


def complete(*chunks: tuple[int, int]) -> CompleteRecord:
    return CompleteRecord(launch=0, status="complete", chunks=chunks)


def spans(found: tuple[Any, ...]) -> list[tuple[int, int]]:
    return [((one.base - BASE) >> 20, one.size >> 20) for one in found]


def test_what_is_not_zero_what_changed_and_what_is_pointed_to_is_kept(state: StripedFiles) -> None:
    pointer = BASE + (400 << 20) + 4096
    parts = split(launch((pointer,)), complete((0, 4), (0, 1200)), state)
    assert spans(parts.launch.regions) == [(0, 2), (300, 2), (400, 18)]
    assert spans(parts.zeros) == [(2, 298), (302, 98), (418, 94)]
    assert parts.launch.pre_offsets == (0, 300 << 20, 400 << 20)
    assert parts.complete is not None and parts.complete.chunks == ((0, 4), (1, 0))
    assert {zero.device for zero in parts.zeros} == {1}
    assert parts.launch.closure.included_bytes == 22 << 20
    [note] = parts.launch.notes
    assert note.startswith("490 MiB that the launch can reach are zeros")


@pytest.mark.parametrize(("status", "told"), [("complete", "before and after it:"), ("fault", "before it:")])
def test_the_note_says_what_is_known(state: StripedFiles, status: str, told: str) -> None:
    ended = msgspec.structs.replace(complete(), status=status)
    [note] = split(launch(), ended, state).launch.notes
    assert f"are zeros {told}" in note


def test_an_output_ends_where_the_next_pointer_begins(state: StripedFiles) -> None:
    parts = split(launch((BASE + (10 << 20), BASE + (20 << 20))), None, state)
    assert spans(parts.launch.regions) == [(10, 26), (300, 2)]


def test_a_view_stays_whole(state: StripedFiles) -> None:
    view = {
        "region": 0, "offset": 100 << 20, "dtype": "float32", "itemsize": 4, "shape": [16 << 20],
        "strides": [1], "storage": [90 << 20, 80 << 20],
    }  # fmt: skip
    parts = split(launch(views=[view]), None, state)
    assert spans(parts.launch.regions) == [(90, 80), (300, 2)]
    [moved] = parts.launch.views
    assert (moved.region, moved.offset, moved.storage) == (0, 10 << 20, (0, 80 << 20))


@pytest.mark.parametrize(
    "region", [{"kind": "managed"}, {"kind": "host", "device": -1}, {"base": BASE + 256}], ids=str
)
def test_memory_that_has_no_such_pages_stays_as_it_is(state: StripedFiles, region: dict[str, Any]) -> None:
    whole = {"base": BASE, "size": SIZE, "kind": "device", "device": 1, "reason": "", **region}
    parts = split(launch(regions=[whole]), None, state)
    assert spans(parts.launch.regions) == [((whole["base"] - BASE) >> 20, 512)] and not parts.zeros


def test_a_last_page_that_is_not_whole_is_kept(state: StripedFiles) -> None:
    whole = {"base": BASE, "size": SIZE - 4096, "kind": "device", "device": 0, "reason": ""}
    parts = split(launch(regions=[whole]), None, state)
    assert parts.launch.regions[-1].size == PAGE - 4096
    assert all(zero.size % PAGE == 0 for zero in parts.zeros)


def test_a_chunk_of_no_region_is_refused(state: StripedFiles) -> None:
    with pytest.raises(CaptureError, match="region 3 is in none of its parts"):
        split(launch(), complete((3, 0)), state)
