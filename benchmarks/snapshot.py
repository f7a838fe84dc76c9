"""How fast the pre-state of one launch reaches a memory-backed folder.

The baseline is the slower of two ceilings measured in the same run: copying the same bytes from
the device into pinned memory (without a GPU: left out), and the sink, which is the same writers
putting preallocated incompressible data into the same folder, without fsync.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import textwrap
import time
from pathlib import Path
from types import ModuleType

import kerncap

TARGET = """
import sys, time
import torch, triton
import triton.language as tl

@triton.jit
def touch(a_ptr, b_ptr, c_ptr, d_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(a_ptr + i, tl.load(b_ptr + i) + tl.load(c_ptr + i) + tl.load(d_ptr + i))

each = int(sys.argv[1])
device = "cuda" if torch.cuda.is_available() else "cpu"
parts = [torch.randint(-2**62, 2**62, (each // 8,), device=device, dtype=torch.int64) for _ in range(4)]
for _ in range(3):
    touch[(1,)](*parts, BLOCK=64)
if device == "cuda":
    torch.cuda.synchronize()
    ring = [torch.empty(8 << 20, dtype=torch.uint8, pin_memory=True) for _ in range(8)]
    best = float("inf")
    for _ in range(3):
        start = time.perf_counter()
        n = 0
        for part in parts:
            raw = part.view(torch.uint8)
            for at in range(0, raw.numel(), 8 << 20):
                piece = raw[at : at + (8 << 20)]
                ring[n % 8][: piece.numel()].copy_(piece, non_blocking=True)
                n += 1
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - start)
    print("pinned", 4 * each / best)
"""

ROUNDS = 3


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
    return importlib.import_module("kerncap_triton.copying")


def sink_rate(folder: Path, size: int) -> float:
    """Bytes a second of the hook's writers from host memory that is already there."""
    import numpy as np

    copying = hook_copying()
    piece = copying.PIECE
    ring = np.random.default_rng(0).integers(0, 256, 8 * piece, dtype=np.uint8)
    base = ring.ctypes.data
    best = 0.0
    for _ in range(ROUNDS):
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


def captured_rate(folder: Path, size: int, env: dict[str, str]) -> tuple[float, float, float | None]:
    """Bytes a second of the pre-state and of the post pass, and the pinned ceiling if there is a GPU."""
    target = folder / "target.py"
    target.write_text(textwrap.dedent(TARGET))
    session_out = folder / "out"
    options = ["--keep-session", "--no-self-check", "-k", "touch", "--launch", "2", "-o", str(session_out)]
    command = [sys.executable, "-m", "kerncap", "capture", *options]
    program = [sys.executable, str(target), str(size // 4)]
    finished = subprocess.run(
        [*command, "--", *program], env=env, capture_output=True, text=True, check=False
    )
    if finished.returncode:
        raise SystemExit(finished.stdout + finished.stderr)
    from kerncap.format import records

    pinned = next(
        (float(line.split()[1]) for line in finished.stdout.splitlines() if line.startswith("pinned")), None
    )
    for path in session_out.glob(".kerncap-session-*/*/records"):
        for record in records.decode(path.read_bytes()):
            if record.kind is records.RecordKind.COMPLETE:
                spent = record.payload["copy_ns"]
                return size / spent["pre"] * 1e9, size / spent["post"] * 1e9, pinned
    raise SystemExit("no COMPLETE record: " + finished.stderr)


def main() -> None:
    """Measure and print one line a figure, the ratio last."""
    has_gpu = Path("/dev/nvidia0").exists()
    env = dict(os.environ) if has_gpu else {**os.environ, "TRITON_INTERPRET": "1"}
    size = (4 << 30) if has_gpu else (512 << 20)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        pre = post = sink = 0.0
        pinned: float | None = None
        for _ in range(ROUNDS):
            sink = max(sink, sink_rate(folder, size))
            with tempfile.TemporaryDirectory(dir=folder) as inner:
                rates = captured_rate(Path(inner), size, env)
            pre, post = max(pre, rates[0]), max(post, rates[1])
            pinned = max(pinned or 0.0, rates[2]) if rates[2] is not None else pinned
    ceiling = min(sink, pinned) if pinned is not None else sink
    print(f"{size / 2**30:.1f} GiB in four arguments, best of {ROUNDS}")
    if pinned is not None:
        print(f"pinned copy        {pinned / 1e9:7.2f} GB/s")
    print(f"sink               {sink / 1e9:7.2f} GB/s")
    print(f"post-state pass    {post / 1e9:7.2f} GB/s   (copied and compared; only changed chunks written)")
    print(f"pre-state          {pre / 1e9:7.2f} GB/s   {pre / ceiling:.3f}x of the slower ceiling")
    print(json.dumps({"pre": pre, "post": post, "sink": sink, "pinned": pinned, "ratio": pre / ceiling}))


if __name__ == "__main__":
    main()
