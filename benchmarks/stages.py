"""The host's side of a large reproducer, stage by stage: seal, open, restore, hash, poison, compare.

Each in bytes of the launch's memory a second, best of some rounds, against the slowest of its floors in the
same run on all cores: the sink (a file for each thread, from memory), the digest and zstd by their libraries,
copies in memory. `random` data can't be packed, `integers` can. Then, on a GPU, `capture`, `replay` and
`verify` of a launch of that size.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
import zstandard
from _harness import KERNCAP, PROGRAMS, ROOT, Row, arguments, build, capture, finish, has_gpu

sys.path.insert(0, str(ROOT))
from kerncap.capture.options import parse_size
from kerncap.format import Reproducer, ReproducerWriter, digests
from kerncap.format.chunks import LARGE_BYTES
from kerncap.format.packing import ZSTD_LEVEL
from kerncap.format.region_sources import StripedFiles
from kerncap.format.schema import CHUNK_BYTES
from kerncap.replay.worker.common import bitmap, poison
from tests.unit.format import small

T = TypeVar("T")
CORES = len(os.sched_getaffinity(0))
PIECE = 4 << 20  # as the shims write
STAGES = ("seal", "open", "restore", "hash", "poison", "compare", "commands")


def on_all_cores(size: int, step: int, work: Callable[[int, int, int], object]) -> float:
    """Bytes a second of ``work(thread, offset, length)`` over [0, size), dealt out in turn."""

    def run(thread: int) -> None:
        for offset in range(thread * step, size, CORES * step):
            work(thread, offset, min(step, size - offset))

    threads = [threading.Thread(target=run, args=(thread,)) for thread in range(CORES)]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return size / (time.perf_counter() - start)


def made(kind: str, size: int) -> np.ndarray:
    """Memory of which no two chunks are equal."""
    numbers = np.random.default_rng(0)
    if kind == "random":
        base = numbers.integers(1, 2**63, min(size, 64 << 20) // 8, dtype=np.uint64).view(np.uint8)
    else:
        base = numbers.integers(1, 50_000, min(size, 64 << 20) // 4, dtype=np.uint32).view(np.uint8)
    data = np.resize(base, size)
    data.view(np.uint64)[:: CHUNK_BYTES // 8] = np.arange(-(-size // CHUNK_BYTES)) + 1
    return data


def session(folder: Path, data: memoryview) -> tuple[list[int], float]:
    """Files in stripes as a shim leaves them, and how fast they were written: that is the sink."""
    files = [os.open(folder / f"state.{i}", os.O_RDWR | os.O_CREAT | os.O_TRUNC) for i in range(CORES)]
    rate = on_all_cores(
        len(data),
        PIECE,
        lambda i, at, n: os.pwrite(files[i], data[at : at + n], at // CORES // PIECE * PIECE),
    )
    return files, rate


def seal(folder: Path, files: list[int], size: int) -> Path:
    with ReproducerWriter(folder, "stage", size) as writer:
        writer.add_region_pre(0, size, StripedFiles(files, PIECE))
        return writer.seal(small.manifest(writer.finish_memory(), [size]))


def timed(size: int, work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return size / (time.perf_counter() - start)


def in_processes(prepare: Callable[[int], T], work: Callable[[int, T], object]) -> float:
    """Seconds of ``work(process, prepared)`` in a process for each core: threads share Python's lock."""
    started, go = os.pipe()
    ready, is_ready = os.pipe()
    children = []
    for number in range(CORES):
        child = os.fork()
        if not child:
            os.close(go)
            prepared = prepare(number)
            os.write(is_ready, b".")
            os.read(started, 1)  # until the parent closes its end
            work(number, prepared)
            os._exit(0)
        children.append(child)
    for _ in children:
        os.read(ready, 1)
    start = time.perf_counter()
    os.close(go)
    failed = [os.waitpid(child, 0)[1] for child in children]
    spent = time.perf_counter() - start
    for fd in (started, ready, is_ready):
        os.close(fd)
    if any(failed):
        raise SystemExit("a process of a floor failed")
    return spent


def digest_of(size: int) -> digests.Digest:
    return "blake3" if size >= LARGE_BYTES else "sha256"


def floors(data: memoryview) -> dict[str, float]:
    """Of the libraries, in raw bytes a second."""
    chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
    name, digest = digest_of(len(data)), digests.function(digest_of(len(data)))
    packer, unpacker = zstandard.ZstdCompressor(level=ZSTD_LEVEL), zstandard.ZstdDecompressor()

    def none(_: int) -> None: ...

    def packed(number: int) -> list[bytes]:
        return [packer.compress(chunk) for chunk in chunks[number::CORES]]

    def buffer(_: int) -> tuple[np.ndarray, np.ndarray]:
        return np.ones(PIECE, np.uint8), np.frombuffer(data, np.uint8)

    def copy(number: int, arrays: tuple[np.ndarray, np.ndarray]) -> None:
        target, source = arrays
        for at in range(number * PIECE, len(source), CORES * PIECE):
            part = source[at : at + PIECE]
            target[: len(part)] = part

    seconds = {
        name: in_processes(none, lambda i, _: [digest(c) for c in chunks[i::CORES]]),
        "zstd": in_processes(none, lambda i, _: packed(i)),
        "zstd back": in_processes(packed, lambda _, there: [unpacker.decompress(c) for c in there]),
        "copies": in_processes(buffer, copy),
    }
    return {name: len(data) / spent for name, spent in seconds.items()}


def peak_growth(work: Callable[[], object]) -> tuple[float, int]:
    """Seconds, and by how many bytes this process grew meanwhile, mapped files included."""
    Path("/proc/self/clear_refs").write_text("5")
    before = _status("VmRSS")
    start = time.perf_counter()
    work()
    return time.perf_counter() - start, max(0, _status("VmHWM") - before)


def _status(key: str) -> int:
    [line] = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(key)]
    return int(line.split()[1]) * 1024


def one_round(data: np.ndarray, parent: Path, stages: list[str]) -> tuple[dict[str, float], int]:
    """Rates of everything, and the growth while sealing."""
    size, view = len(data), memoryview(data)
    rates = floors(view)
    with tempfile.TemporaryDirectory(dir=parent) as name:
        folder = Path(name)
        files, rates["sink"] = session(folder, view)
        sealed: list[Path] = []
        seconds, growth = peak_growth(lambda: sealed.append(seal(folder, files, size)))
        rates["seal"] = size / seconds
        for file in files:
            os.close(file)
        other = np.zeros_like(data)
        other[:] = 1  # its pages are there
        with Reproducer.open(sealed[0]) as opened:
            rates["open"] = timed(size, lambda: opened.read_into("pre", 0, 0, memoryview(other)))
            if (other != data).any():
                raise SystemExit("what was read is not what was sealed")
            rates["hash"] = timed(size, lambda: opened.verify_files(memory=True))
            rates["restore"] = timed(
                size, lambda: opened.stage("pre", 0, [folder / f"region.{part}" for part in range(16)])
            )
    if "compare" in stages:
        rates["compare"] = timed(size, lambda: bitmap.of_flags(data != other))
    if "poison" in stages:
        rates["poison"] = timed(size, lambda: poison.words(np, 0, 0, 0, size))
    return rates, growth


def measure(kind: str, size: int, rounds: int, stages: list[str], parent: Path) -> Iterator[Row]:
    data = made(kind, size)
    found = [one_round(data, parent, stages) for _ in range(rounds)]
    best = {key: max(rates[key] for rates, _ in found) for key in found[0][0]}
    packs = [] if kind == "random" else ["zstd"]
    back = [f"{way} back" for way in packs]
    digest = digest_of(size)
    ways = {
        "seal": ["sink", digest, *packs], "open": ["copies", digest, *back], "hash": [digest],
        "restore": ["sink", digest, *back], "poison": ["copies"], "compare": ["copies"],
    }  # fmt: skip
    of = f"{kind}, {size / 2**20:,.0f} MiB"
    for stage in (stage for stage in ways if stage in stages):
        floor = min(ways[stage], key=best.__getitem__)
        text = f"{floor}, {CORES} cores ({best[floor] / 1e9:.2f} GB/s)"
        bound = 0.5 if stage == "seal" else None
        yield Row(f"{stage}, {of}", best[stage] / 1e9, "GB/s", text, best[stage] / best[floor], bound)
    growth = max(each for _, each in found)
    yield Row(f"memory to seal, {of}", growth / 2**30, "GiB", "the launch's memory", growth / size)


def on_gpu(size: int, parent: Path) -> Iterator[Row]:
    """Wall seconds of whole commands; the program only touches its memory."""
    gib = max(1, size >> 30)
    program = build(PROGRAMS / "large.cu")
    with tempfile.TemporaryDirectory(dir=parent) as name:
        options = ["-k", "kc_touch", "--max-size", "64GiB"]
        start = time.perf_counter()
        [path] = capture(Path(name), options, [str(program), "touch", str(gib)])[:1]
        took = time.perf_counter() - start
        yield Row(f"capture, {gib} GiB", took, "s", "itself", 1.0)
        for command in ("replay", "verify"):
            start = time.perf_counter()
            done = subprocess.run([*KERNCAP, command, str(path)], capture_output=True, text=True, check=False)
            spent = time.perf_counter() - start
            if done.returncode:
                raise SystemExit(f"{command}: status {done.returncode}\n{done.stdout}{done.stderr}")
            yield Row(f"{command}, {gib} GiB", spent, "s", "the capture", spent / took)


def main() -> int:
    """One line a figure; the status is 1 where a bound is missed."""
    parser = arguments(__doc__)
    parser.add_argument("--size", type=parse_size, default=1 << 30, help="of the launch's memory (1 GiB)")
    parser.add_argument("--rounds", type=int, default=3, help="of each; the best counts")
    parser.add_argument("--stages", nargs="+", choices=STAGES, default=list(STAGES))
    parser.add_argument("--folder", type=Path, default=Path("/dev/shm"), help="the sink (/dev/shm)")
    options = parser.parse_args()
    rows = [
        row
        for kind in ("random", "integers")
        for row in measure(kind, options.size, options.rounds, options.stages, options.folder)
    ]
    if has_gpu() and "commands" in options.stages:
        rows += on_gpu(options.size, options.folder)
    return finish("stages", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
