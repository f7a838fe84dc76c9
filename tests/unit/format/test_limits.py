"""`kerncap inspect --json` on hostile folders: status 3, one line, under a second and 200 MB of memory.

Each case runs in its own process under an address-space limit.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kerncap.format.chunks import MAX_IN_FLIGHT_BYTES
from kerncap.format.schema import CHUNK_BYTES
from tests.unit.format import small
from tests.unit.format.damage import edit_index, edit_manifest, write_manifest, write_stored

MAX_RSS_BYTES = 200 * 1000 * 1000
RUN = "import sys; from kerncap.cli import main; sys.exit(main(sys.argv[1:]))"
# Prints the peak on the descriptor that is its first argument; stdout and stderr stay the tool's own.
# VmHWM and not ru_maxrss: the latter still counts this test's own process, from before the exec.
MEASURED = """
import os, re, sys
report = int(sys.argv.pop(1))
from kerncap.cli import main
status = main(sys.argv[1:])
sys.stdout.flush()
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
os.write(report, str(int(peak[1]) * 1024).encode())
sys.exit(status)
"""


def inspect_json(folder: Path) -> tuple[int, str, str, int]:
    """(status, stdout, stderr, peak RSS in bytes) of `kerncap inspect --json`."""
    read_end, write_end = os.pipe()
    # One thread for numpy's BLAS: its per-core buffers would be counted as ours.
    env = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MEASURED, str(write_end), "inspect", "--json", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, pass_fds=[write_end], env=env)
    os.close(write_end)
    with os.fdopen(read_end) as report:
        peak = int(report.read() or 0)
    return done.returncode, done.stdout, done.stderr, peak


def flip_chunk(folder: Path) -> None:
    data = bytearray((folder / "memory/chunks").read_bytes())
    data[3000] ^= 1
    (folder / "memory/chunks").write_bytes(data)


def truncate_chunk(folder: Path) -> None:
    os.truncate(folder / "memory/chunks", 1000)


def set_size(folder: Path) -> None:
    edit_manifest(folder, lambda m: m["regions"][0].update(size=2**60))


def set_path(folder: Path) -> None:
    edit_manifest(folder, lambda m: m["code"][0]["file"].update(path="../../etc/passwd"))


def set_version(folder: Path) -> None:
    edit_manifest(folder, lambda m: m["version"].update(major=2))


def huge_frame(folder: Path) -> None:
    data = bytearray((folder / "memory/chunks").read_bytes())
    data[4:13] = b"\xe0" + struct.pack("<Q", 1 << 60)
    write_stored(folder, ("memory", "chunks"), "memory/chunks", bytes(data))


def huge_index(folder: Path) -> None:
    header = b"\x85\xa7version\x01\xabchunk_bytes\xce\x00\x04\x00\x00\xa5table\xc6\xff\xff\xff\xf0"
    write_stored(folder, ("memory", "index"), "memory/index", header)


def huge_array_in_index(folder: Path) -> None:
    write_stored(folder, ("memory", "index"), "memory/index", b"\xdd\xff\xff\xff\xff" + b"\xc0" * 100)


def deep_manifest(folder: Path) -> None:
    write_manifest(folder, b'{"x":' + b"[" * 8_000_000)


def huge_files(folder: Path) -> None:
    for name in ("manifest.json", "checks.json", "memory/index"):
        os.truncate(folder / name, 1 << 42)


def deep_value(folder: Path) -> None:
    value: Any = {"kind": "none"}
    for _ in range(400):
        value = {"kind": "sequence", "items": [value]}
    edit_manifest(folder, lambda m: m["arguments"][0].update(value=value))


CASES = [
    (flip_chunk, "memory/chunks", "byte 1291: chunk 3 is damaged"),
    (truncate_chunk, "memory/chunks", "byte 1000: truncated"),
    (set_size, "manifest.json", "regions.0.size"),
    (set_path, "manifest.json", "leads out of the reproducer"),
    (set_version, "manifest.json", "format version 2 is not known"),
    (huge_index, "memory/index", "not a memory index"),
    (huge_array_in_index, "memory/index", "not a memory index"),
    (deep_manifest, "manifest.json", "nested too deep"),
    (deep_value, "manifest.json", "nested"),
    (huge_files, "manifest.json", "at most 16777216 are allowed"),
]


@pytest.mark.parametrize(("damage", "file", "message"), CASES, ids=[case[0].__name__ for case in CASES])
def test_inspect_of_a_hostile_folder(
    folder: Path, damage: Callable[[Path], None], file: str, message: str
) -> None:
    damage(folder)
    status, out, err, peak = inspect_json(folder)
    assert (status, out) == (3, "")
    assert len(err.splitlines()) == 1, err
    assert f"{folder / file}: byte " in err
    assert message in err
    assert 0 < peak < MAX_RSS_BYTES


def test_a_frame_that_claims_2_to_the_60(folder: Path) -> None:
    """Only `--verify` or a reading unpacks; the frame's own size is looked at before."""
    huge_frame(folder)
    command = [sys.executable, "-c", RUN, "inspect", "--verify", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, preexec_fn=_limit_memory)
    assert done.returncode == 3
    assert "byte 0: chunk 1 is damaged: the zstd frame holds 1152921504606846976 bytes" in done.stderr


def test_a_large_manifest_stays_within_the_memory(folder: Path) -> None:
    """A manifest just under the cap whose last value is wrong: found, placed, in bounded memory."""
    value = {"kind": "tensor", "view": 9}
    edit_manifest(folder, lambda m: m["arguments"][0].update(value=value))
    data = (folder / "manifest.json").read_bytes()
    padding = b'{"future": [' + b"0," * 7_000_000 + b"0],"
    write_manifest(folder, padding + data[1:])
    status, _, err, peak = inspect_json(folder)
    assert status == 3
    assert "view 9 of only 4" in err
    assert peak < MAX_RSS_BYTES


def test_regions_of_a_tebibyte_cost_nothing(tmp_path: Path) -> None:
    size = 1 << 40
    made = small.write(tmp_path, [(b"x" * 10, b"y" * 10)])
    edit_manifest(made, lambda m: m["regions"][0].update(size=size))

    def drop(index: Any) -> None:  # the short chunk would have to be the last one
        index["pre"].clear()
        index["post"].clear()

    edit_index(made, drop)
    edit_manifest(made, lambda m: m["memory"].update(pre_bytes=0, post_bytes=0))
    status, out, err, peak = inspect_json(made)
    assert status == 0, err
    assert json.loads(out)["manifest"]["regions"][0]["size"] == size
    assert peak < MAX_RSS_BYTES


def test_sealing_stays_within_bounded_memory(tmp_path: Path) -> None:
    """256 MB of incompressible memory pass through a process that may grow by far less."""
    program = f"""
import os, resource, sys, tempfile
from pathlib import Path
from kerncap.format import ReproducerWriter
from tests.unit.format import small
size = 1024 * {CHUNK_BYTES}
block = os.urandom({CHUNK_BYTES})
with tempfile.TemporaryFile(dir={str(tmp_path)!r}) as file:
    for number in range(1024):
        file.write(number.to_bytes(8, "little") + block[8:])
    file.flush()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with ReproducerWriter(Path({str(tmp_path)!r}), "k") as writer:
        writer.add_region_pre(0, size, file)
        writer.seal(small.manifest(writer.finish_memory(), [size]))
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024)
"""
    root = Path(__file__).parents[3]
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=root, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) < MAX_IN_FLIGHT_BYTES + 40_000_000


def _limit_memory() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))
