"""A reproducer around the source of a native kernel, and the compilers that this machine has."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from kerncap.capture import languages
from kerncap.format import Reproducer, ReproducerWriter, schema
from kerncap.replay import candidates
from kerncap.replay.candidates import tools
from tests.unit.format import small

Make = Callable[..., Reproducer]


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No test sees what another one built."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "kerncap" / "candidates"


def here(found: tools.Tool | str) -> tools.Tool:
    if isinstance(found, str):
        pytest.skip(found)
    return found


@pytest.fixture
def nvcc() -> tools.Tool:
    return here(tools.nvcc())


@pytest.fixture
def nvrtc() -> tools.Tool:
    return here(tools.nvrtc())


def rebuilt(reproducer: Reproducer, folder: Path, old: str = "", new: str = "", *, variable: str) -> bytes:
    """The kernel's own source with ``new`` for ``old``, compiled by the Python that a variable names."""
    text = reproducer.source_text()
    assert text is not None and old in text
    file = folder / "kernel.py"
    file.write_text(text.replace(old, new) if old else text)
    return candidates.build(reproducer, file, "sm_90", folder, os.environ.get(variable)).read_bytes()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Seal a reproducer of a native kernel: its source as found, or one that is given."""
    opened: list[Reproducer] = []

    def made(
        found: languages.FoundSource | None,
        mangled: str,
        demangled: str = "",
        globals_: tuple[str, ...] = (),
        change: Callable[[schema.Source], schema.Source] = lambda source: source,
    ) -> Reproducer:
        with ReproducerWriter(tmp_path / "out", "k") as writer:
            source = found.store(writer.add_source) if found is not None else None
            memory = writer.finish_memory()
            manifest = small.manifest(memory, [])
            regions = tuple(
                schema.Region(base=0x1000 * (n + 1), size=4, kind="global", name=name)
                for n, name in enumerate(globals_)
            )
            manifest = msgspec.structs.replace(
                manifest,
                kernel=schema.Kernel(
                    name=found.entry if found is not None else mangled,
                    qualified_name=demangled or mangled,
                    language="cuda",
                    mangled=mangled,
                ),
                regions=regions,
                source=change(source) if source is not None else None,
            )
            reproducer = Reproducer.open(writer.seal(manifest))
        opened.append(reproducer)
        return reproducer

    yield made
    for each in opened:
        each.close()
