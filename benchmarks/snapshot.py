"""How fast the snapshot of one launch reaches a memory-backed folder.

On a GPU: the shim's engine, 8 GiB in plain allocations and in torch's, pre-state and post-state apart. The
baselines, measured in the same run: the sink (as many writers as the engine had, from pinned memory into as
many files of the same folder), the pinned copy alone, and the naive way (copies into pageable memory, one
writer). Without one: the Triton hook's writers, against the same writers with data that is already there.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import ModuleType
from typing import Any

from _harness import KERNCAP, PROGRAMS, Row, arguments, build, finish, has_gpu

import kerncap
from kerncap.format import records

TARGET = """
import sys
import torch, triton
import triton.language as tl

@triton.jit
def touch(a_ptr, b_ptr, c_ptr, d_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(a_ptr + i, tl.load(b_ptr + i) + tl.load(c_ptr + i) + tl.load(d_ptr + i))

each = int(sys.argv[1])
parts = [torch.randint(-2**62, 2**62, (each // 8,), dtype=torch.int64) for _ in range(4)]
for _ in range(3):
    touch[(1,)](*parts, BLOCK=64)
"""

USUAL_WRITERS = 8


def hook_copying() -> ModuleType:
    """The hook's own copying module, so that the sink has the very same writers."""
    package = Path(kerncap.__file__).parent / "shims" / "triton" / "kerncap_triton"
    if not package.is_dir():
        package = Path(kerncap.__file__).parents[1] / "shims" / "triton" / "kerncap_triton"
    spec = importlib.util.spec_from_file_location(
        "kerncap_triton", package / "__init__.py", submodule_search_locations=[str(package)]
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["kerncap_triton"] = module
    spec.loader.exec_module(module)
    return importlib.import_module("kerncap_triton.region_copies")


def sink_rate(folder: Path, size: int) -> float:
    """Bytes a second of the hook's writers from host memory that is already there."""
    import numpy as np

    copying = hook_copying()
    piece = copying.PIECE
    ring = np.random.default_rng(0).integers(0, 256, 8 * piece, dtype=np.uint8)
    base = ring.ctypes.data
    best = 0.0
    for _ in range(3):
        path = folder / "sink"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
        os.ftruncate(fd, size)
        pieces = ((0, at, base + at % ring.nbytes, min(piece, size - at)) for at in range(0, size, piece))
        store = copying.Store(fd, [0], 256 * 1024)
        start = time.perf_counter()
        copying.run(pieces, store, size)
        best = max(best, size / (time.perf_counter() - start))
        os.close(fd)
        path.unlink()
    return best


def hook_rate(folder: Path, size: int) -> tuple[float, float]:
    """Bytes a second of the hook's pre-state and of its post pass."""
    target = folder / "target.py"
    target.write_text(textwrap.dedent(TARGET))
    command = [sys.executable, str(target), str(size // 4)]
    launch, complete = recorded(folder, "touch", command, {**os.environ, "TRITON_INTERPRET": "1"})
    spent = complete["copy_ns"]
    return size / spent["pre"] * 1e9, size / spent["post"] * 1e9


def recorded(
    folder: Path, kernel: str, command: list[str], env: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """LAUNCH and COMPLETE of the third launch. Sealing, which is not measured here, is cut short."""
    options = [
        "--no-self-check",
        "-k",
        kernel,
        "--launch",
        "2",
        "--max-size",
        "64GiB",
        "-o",
        str(folder / "out"),
    ]
    running = subprocess.Popen(
        [*KERNCAP, "capture", *options, "--", *command], env=env, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, text=True, start_new_session=True,
    )  # fmt: skip
    found: dict[records.RecordKind, dict[str, Any]] = {}
    try:
        while records.RecordKind.COMPLETE not in found:
            for path in (folder / "out").glob(".kerncap-session-*/*/records"):
                for record in records.decode(path.read_bytes()):
                    if record.kind in (records.RecordKind.LAUNCH, records.RecordKind.COMPLETE):
                        found[record.kind] = record.payload
                    if record.kind is records.RecordKind.FAILED:
                        raise SystemExit(f"{record.payload['kernel']}: {record.payload['reason']}")
            if running.poll() is not None and records.RecordKind.COMPLETE not in found:
                raise SystemExit(f"no COMPLETE record: {running.stdout.read() if running.stdout else ''}")
            time.sleep(0.05)
    finally:
        # The whole group: the target is a child of the command line.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
    return found[records.RecordKind.LAUNCH], found[records.RecordKind.COMPLETE]


def without_gpu(size: int, rounds: int) -> list[Row]:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        pre = post = sink = 0.0
        for _ in range(rounds):
            sink = max(sink, sink_rate(folder, size))
            with tempfile.TemporaryDirectory(dir=folder) as inner:
                rates = hook_rate(Path(inner), size)
            pre, post = max(pre, rates[0]), max(post, rates[1])
    gib = f"{size / 2**30:.1f} GiB"
    return [
        Row(f"hook: pre-state, {gib}", pre / 1e9, "GB/s", f"the sink ({sink / 1e9:.2f} GB/s)", pre / sink),
        Row(f"hook: post-state pass, {gib}", post / 1e9, "GB/s", "the pre-state", post / pre),
    ]


def measure_baselines(program: Path, folder: str, gib: int, writers: int) -> dict[str, float]:
    command = [str(program), "baselines", folder, str(gib), str(writers)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    rates = json.loads(done.stdout)
    assert isinstance(rates, dict)
    return rates


def on_gpu(gib: int, rounds: int) -> list[Row]:
    """Best of ``rounds`` each; what disturbs a copy only ever makes it slower."""
    program = build(PROGRAMS / "large.cu")
    size = gib << 30
    targets = {
        "plain allocations": ([str(program), "touch", str(gib)], "kc_touch"),
        "torch's allocator": (
            [sys.executable, str(PROGRAMS / "large_tensors.py"), str(gib)],
            "multi_tensor_apply_kernel",
        ),
    }
    rows = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        # First: the machine's memory must have been touched before anything is compared.
        baselines = {USUAL_WRITERS: measure_baselines(program, name, gib, USUAL_WRITERS)}
        for allocator, (command, kernel) in targets.items():
            pre = post = 0.0
            writers = 1
            for _ in range(rounds):
                with tempfile.TemporaryDirectory(dir=name) as inner:
                    launch, complete = recorded(Path(inner), kernel, command, dict(os.environ))
                included = launch["closure"]["included_bytes"]
                if included < size:
                    raise SystemExit(f"{allocator}: only {included:,} bytes in the closure")
                writers = launch["pre"].get("stripes", 1)
                spent = complete["copy_ns"]
                pre = max(pre, included / spent["pre"] * 1e9)
                post = max(post, included / max(1, spent["post"]) * 1e9)
            if writers not in baselines:
                baselines[writers] = measure_baselines(program, name, gib, writers)
            base = {key: value / 1e9 for key, value in baselines[writers].items()}
            ceiling = min(base["sink"], base["pinned"])
            words = f"the sink ({writers} writers, {base['sink']:.1f} GB/s; pinned copy {base['pinned']:.1f})"
            naive = f"the naive way ({base['naive']:.2f} GB/s)"
            pre, post = pre / 1e9, post / 1e9
            rows += [
                Row(f"pre-state, {gib} GiB, {allocator}", pre, "GB/s", words, pre / ceiling, least=0.8),
                Row(f"pre-state, {gib} GiB, {allocator}", pre, "GB/s", naive, pre / base["naive"], least=5.0),
                Row(f"post-state pass, {allocator}", post, "GB/s", words, post / ceiling),
            ]
    return rows


def main() -> int:
    """One line a figure; the status is 1 where a bound is missed."""
    parser = arguments(__doc__)
    parser.add_argument("--gib", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=3, help="of each; the best counts")
    options = parser.parse_args()
    rows = on_gpu(options.gib, options.rounds) if has_gpu() else without_gpu(512 << 20, options.rounds)
    return finish("snapshot", rows, options.json)


if __name__ == "__main__":
    sys.exit(main())
