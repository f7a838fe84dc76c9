"""What is written is what is read: regions, holes, repeats, changes, values."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.format import Reproducer, ReproducerWriter, WriteSet, schema
from kerncap.format.schema import CHUNK_BYTES
from kerncap.format.write_set import Mask
from tests.golden.contents import noise
from tests.unit.format import small

# A few kinds of chunk, so that zeros and repeats are common.
CHUNKS = [bytes(CHUNK_BYTES), b"\x01" * CHUNK_BYTES, noise(CHUNK_BYTES, 3), bytes(CHUNK_BYTES - 1) + b"x"]
TAILS = st.one_of(st.just(b""), st.binary(max_size=40), st.just(bytes(9)))


@st.composite
def region(draw: st.DrawFn) -> tuple[bytes, bytes]:
    whole = draw(st.lists(st.sampled_from(range(4)), max_size=4))
    tail = draw(TAILS)
    after = [draw(st.sampled_from([kind, 0, 2])) for kind in whole]
    tail_after = draw(st.sampled_from([tail, bytes(len(tail)), tail[::-1]]))
    return b"".join(CHUNKS[i] for i in whole) + tail, b"".join(CHUNKS[i] for i in after) + tail_after


@given(st.lists(region(), max_size=3), st.data())
def test_memory(states: list[tuple[bytes, bytes]], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as parent:
        with Reproducer.open(small.write(Path(parent), states)) as made:
            made.verify()
            assert len({bytes(d) for d in made.index.table["digest"]}) == len(made.index.table)
            for number, (pre, post) in enumerate(states):
                assert made.read("pre", number, 0, len(pre)) == pre
                assert made.read("post", number, 0, len(post)) == post
                starts = range(0, len(pre), CHUNK_BYTES)
                changed = [
                    i for i, s in enumerate(starts) if pre[s : s + CHUNK_BYTES] != post[s : s + CHUNK_BYTES]
                ]
                assert made.chunks_changed(number) == changed
                begin = data.draw(st.integers(0, len(pre)))
                end = data.draw(st.integers(begin, len(pre)))
                assert made.read("post", number, begin, end - begin) == post[begin:end]
                staged = Path(parent) / "staged"
                made.stage("post", number, [staged])
                assert staged.read_bytes() == post
                staged.unlink()


PIECES = st.lists(st.tuples(st.integers(0, 6 * CHUNK_BYTES), st.binary(min_size=1, max_size=9)), max_size=4)


@given(PIECES, st.integers(0, 5000))
def test_sparse_file_as_source(pieces: list[tuple[int, bytes]], offset: int) -> None:
    """Holes are skipped and nothing but them, whatever the offset of the region in the file."""
    size = 6 * CHUNK_BYTES + 100
    with tempfile.TemporaryDirectory() as parent, tempfile.TemporaryFile() as file:
        os.ftruncate(file.fileno(), offset + size)
        for at, data in pieces:
            os.pwrite(file.fileno(), data, offset + at)
        expected = os.pread(file.fileno(), size, offset)
        with ReproducerWriter(Path(parent), "k") as writer:
            writer.add_region_pre(0, size, file, offset)
            folder = writer.seal(small.manifest(writer.finish_memory(), [size]))
        with Reproducer.open(folder) as made:
            assert made.read("pre", 0, 0, size) == expected


def test_staged_zeros_are_holes(tmp_path: Path) -> None:
    size = 64 * CHUNK_BYTES
    state = bytes(size - 1) + b"x"
    with Reproducer.open(small.write(tmp_path, [(state, state)])) as made:
        made.stage("pre", 0, [tmp_path / "staged"])
        info = os.stat(tmp_path / "staged")
        assert info.st_size == size
        assert info.st_blocks * 512 <= 2 * CHUNK_BYTES


def test_stream_as_source(tmp_path: Path) -> None:
    state = noise(CHUNK_BYTES + 5, 4)
    with ReproducerWriter(tmp_path, "k") as writer:
        writer.add_region_pre(0, len(state), io.BytesIO(b"skip" + state), 4)
        writer.add_region_pre(1, 1 << 30, None)
        folder = writer.seal(small.manifest(writer.finish_memory(), [len(state), 1 << 30]))
    with Reproducer.open(folder) as made:
        assert made.read("pre", 0, 0, len(state)) == state
        assert made.read("pre", 1, (1 << 30) - 5, 5) == bytes(5)


# --- values -----------------------------------------------------------------------------------

TEXT = st.text(st.characters(codec="utf-8"), max_size=20)
NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12)
SCALARS: st.SearchStrategy[Any] = st.one_of(
    st.just(schema.NoneValue()),
    st.builds(schema.BoolValue, value=st.booleans()),
    st.builds(schema.IntValue, value=st.integers(-(2**127), 2**127).map(str)),
    st.builds(schema.FloatValue, value=st.floats().map(float.hex)),
    st.builds(schema.StrValue, value=TEXT),
    st.builds(schema.DtypeValue, name=NAMES, library=st.sampled_from(["triton", "torch"])),
    st.builds(schema.FunctionValue, name=NAMES),
    st.builds(schema.PointerValue, address=st.integers(0, 2**63 - 1), dtype=NAMES),
    st.builds(schema.OpaqueValue, type_name=NAMES, repr=TEXT),
    st.builds(schema.TensorValue, view=st.just(0), wrapped_dtype=st.none() | NAMES),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.builds(
        schema.SequenceValue,
        items=st.lists(inner, max_size=3).map(tuple),
        type=st.sampled_from(["tuple", "list"]),
    ),
    max_leaves=6,
)


@given(st.lists(VALUES, max_size=5), st.dictionaries(NAMES, VALUES, max_size=3))
def test_values(values: list[Any], options: dict[str, Any]) -> None:
    with tempfile.TemporaryDirectory() as parent:
        with ReproducerWriter(Path(parent), "k") as writer:
            writer.add_region_pre(0, 8, b"12345678")
            bare = small.manifest(writer.finish_memory(), [8])
            view = schema.View(region=0, offset=4, dtype="int8", itemsize=1, shape=(4,), strides=(1,))
            arguments = tuple(
                schema.Argument(name=f"a{i}", role="runtime", value=value) for i, value in enumerate(values)
            )
            launch = msgspec.structs.replace(bare.launch, options=options)
            full = msgspec.structs.replace(bare, arguments=arguments, views=(view,), launch=launch)
            folder = writer.seal(full)
        with Reproducer.open(folder) as made:
            assert made.manifest.arguments == arguments
            assert made.manifest.launch.options == options
            for argument, value in zip(made.manifest.arguments, values, strict=True):
                if isinstance(value, schema.FloatValue):
                    assert isinstance(argument.value, schema.FloatValue)
                    assert argument.value.value == value.value


# --- write set --------------------------------------------------------------------------------


@given(st.integers(1, 300), st.binary(min_size=300, max_size=300))
def test_write_set(size: int, kinds: bytes) -> None:
    kind = np.frombuffer(kinds, np.uint8)[:size] % 4
    masks = small.Masks(
        *(np.packbits(flags, bitorder="little") for flags in (kind < 2, kind == 1, kind == 3))
    )
    with tempfile.TemporaryDirectory() as parent:
        folder = small.write(Path(parent), [(bytes(size), bytes(size))])
        with Reproducer.open(folder) as made:
            from kerncap.format import Checks

            stored = small.write_set({0: masks}).save(made)
            made.write_checks(Checks(manifest_sha256=made.manifest_sha256, write_set=stored))
        with Reproducer.open(folder) as again:
            found = WriteSet.load(again)
            assert found is not None
            np.testing.assert_array_equal(found.mask(0), masks.written)
            np.testing.assert_array_equal(found.mask(0, "also_input"), masks.also_input)
            np.testing.assert_array_equal(found.mask(0, "untouched"), masks.untouched)
            assert found.also_input(0) == bool((kind == 1).any())
            assert found.written_bytes(0) == int((kind < 2).sum())
            assert found.count(0, "untouched") == int((kind == 3).sum())
            assert found.written_bytes(1) == 0


def only_written(mask: Mask) -> small.Masks:
    return small.Masks(mask, np.zeros_like(mask), np.zeros_like(mask))


def test_write_set_of_several_pieces(tmp_path: Path) -> None:
    size = (20 << 20) + 3
    mask = np.zeros(-(-size // 8), dtype=np.uint8)
    mask[[0, 1 << 20, -1]] = [0x80, 0x01, 0x04]
    with ReproducerWriter(tmp_path, "k") as writer:
        writer.add_region_pre(0, size, None)
        folder = writer.seal(small.manifest(writer.finish_memory(), [size]))
    with Reproducer.open(folder) as made:
        from kerncap.format import Checks

        stored = small.write_set({0: only_written(mask)}, {0: size}).save(made)
        made.write_checks(Checks(manifest_sha256=made.manifest_sha256, write_set=stored))
        found = WriteSet.load(made)
        assert found is not None
        np.testing.assert_array_equal(found.mask(0), mask)
        assert found.written_bytes(0) == 3


def test_write_set_beyond_its_region_is_refused(tmp_path: Path) -> None:
    folder = small.write(tmp_path, [(bytes(5), bytes(5))])
    with Reproducer.open(folder) as made:
        beyond = small.write_set({0: only_written(np.array([0x3F], np.uint8))})
        try:
            beyond.save(made)
        except ValueError as error:
            assert "beyond the region" in str(error)
        else:
            raise AssertionError("bit 5 of a region of 5 bytes was taken")


def test_masks_that_contradict_each_other_are_refused() -> None:
    none, some = np.zeros(1, np.uint8), np.array([4], np.uint8)
    for masks in (small.Masks(none, some, none), small.Masks(some, none, some)):
        with pytest.raises(ValueError, match="region 0: a byte is"):
            small.write_set({0: masks})
