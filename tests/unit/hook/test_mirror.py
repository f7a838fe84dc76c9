"""The caching allocator's blocks for a native shim: asked for without taking the GIL, never a deadlock."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from .conftest import Run
from .fake_shim import build

SEGMENTS = [
    {
        "address": 0x1000, "device": 0, "segment_pool_id": (0, 0),
        "blocks": [
            {"size": 512, "state": "active_allocated", "address": 0x1000},
            {"size": 1024, "state": "inactive", "address": 0x1200},
            {"size": 512, "state": "active_awaiting_free", "address": 0x1600},
        ],
    },
    # As old versions of torch say it: no addresses of blocks, no pool.
    {
        "address": 0x9000, "device": 1,
        "blocks": [{"size": 64, "state": "inactive"}, {"size": 8, "state": "active_allocated"}],
    },
    {"address": 0x7000, "segment_pool_id": (0, 3), "blocks": [{"size": 256, "state": "inactive"}]},
]  # fmt: skip
TRIPLES = [
    (0x1000, 512, 1), (0x1200, 1024, 0), (0x1600, 512, 1), (0x9000, 64, 0), (0x9040, 8, 1), (0x7000, 256, 1),
]  # fmt: skip

Ask = Callable[..., Any]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("fake-mirror"), "WITH_MIRROR")


@pytest.fixture
def mirror(package: Any) -> Any:
    from kerncap_triton import torch_allocator as mirror  # type: ignore[import-not-found,unused-ignore]

    return mirror


@pytest.fixture
def ask(library: Path, mirror: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ask]:
    """``ask()``: what the shim gets; ``ask(holding_the_gil=True)`` from a launcher that keeps the GIL."""
    from kerncap_triton import native_shims as native  # type: ignore[import-not-found,unused-ignore]

    loaded = ctypes.CDLL(str(library))
    monkeypatch.setitem(native._shims, "cuda", native.Shim(loaded))
    monkeypatch.setattr(mirror, "_serving", 0)
    mirror.start()
    mirror.start()  # a second one is none
    buffer = (ctypes.c_uint64 * 64)()

    def asked(holding_the_gil: bool = False, milliseconds: int = 20_000) -> Any:
        function = (ctypes.PyDLL if holding_the_gil else ctypes.CDLL)(str(library)).fake_ask
        function.restype = ctypes.c_long
        count = function(milliseconds, buffer)
        flat = list(buffer[: 3 * count]) if count > 0 else []
        return count if count < 0 else list(zip(flat[::3], flat[1::3], flat[2::3], strict=True))

    yield asked


def snapshot_of(monkeypatch: pytest.MonkeyPatch, function: Callable[..., Any]) -> None:
    monkeypatch.setattr(importlib.import_module("torch.cuda.memory"), "memory_snapshot", function)


def test_the_shim_gets_the_blocks(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    asked_for = []

    def snapshot(include_traces: bool = True) -> Any:
        asked_for.append(include_traces)
        return SEGMENTS

    snapshot_of(monkeypatch, snapshot)
    assert ask() == TRIPLES and ask() == TRIPLES
    assert asked_for == [False, False]


def test_older_torch_and_no_list(ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot_of(monkeypatch, lambda: SEGMENTS[1:2])
    assert ask() == TRIPLES[3:5]
    snapshot_of(monkeypatch, lambda **_: [])
    assert ask() == []

    def refuses(**_: Any) -> Any:
        raise RuntimeError("cudaMallocAsync does not yet support snapshot")

    snapshot_of(monkeypatch, refuses)
    assert ask() == -1


def test_a_launcher_that_keeps_the_gil_runs_into_the_deadline_only(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot_of(monkeypatch, lambda **_: SEGMENTS)
    assert ask(holding_the_gil=True, milliseconds=50) == -2
    assert ask() == TRIPLES  # the answer that came late did no harm


def test_blocks_are_offered_where_the_hook_runs_anyway(
    ask: Ask, mirror: Any, library: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kerncap_triton import native_shims as native

    snapshot_of(monkeypatch, lambda **_: SEGMENTS)
    mirror.offer(native.find())
    assert ctypes.CDLL(str(library)).fake_offered() == len(TRIPLES)


@pytest.mark.long
def test_it_starts_with_cuda_and_not_before(run: Run, library: Path) -> None:
    script = (
        "import sys, threading, ctypes, os\n"
        "ctypes.CDLL(os.environ['FAKE_SHIM'], mode=ctypes.RTLD_GLOBAL)\n"
        "import torch\n"
        "mirror = sys.modules['kerncap_triton.torch_allocator']\n"
        "print(mirror._serving, 'kerncap_triton.session' in sys.modules)\n"
        "for call, _ in torch.cuda._queued_calls:\n"
        "    if call.__module__.startswith('kerncap_triton'): call()\n"
        "print(mirror._serving == os.getpid(), threading.active_count())\n"
    )
    outcome = run(script, fresh=True, environment={"FAKE_SHIM": str(library)})
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "0 False\nTrue 1\n", "")


@pytest.mark.long
def test_without_a_shim_there_is_no_thread(run: Run) -> None:
    script = (
        "import sys, torch\nsys.modules['kerncap_triton.torch_allocator'].start()\n"
        "print(sys.modules['kerncap_triton.torch_allocator']._serving)"
    )
    outcome = run(script, fresh=True)
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "0\n", "")
