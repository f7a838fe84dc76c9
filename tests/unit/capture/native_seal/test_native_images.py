"""Which images of a native launch are kept, and what its source is asked with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kerncap.capture import languages
from kerncap.capture.collect import Collector
from kerncap.capture.native_seal import MAX_FATBIN_STORED
from kerncap.capture.seal import Sealer
from kerncap.capture.target import TargetResult
from kerncap.format import Reproducer, schema
from tests.unit.capture.built_images import PTX_TEXT, cubin, entry, fatbin
from tests.unit.capture.native_seal.session import CUBIN, Run
from tests.unit.capture.recorded import DEMANGLED, MANGLED, RecordedProcess, bare_session


def test_of_a_fatbin_comes_all_that_serves(run: Run) -> None:
    image = fatbin(entry(PTX_TEXT, 80, kind=1, packing="zstd"), entry(cubin(80), 80), entry(CUBIN, 90))
    manifest = run.sealed(
        image, image={"file": "code/fatbin-1", "kind": "fatbin", "origin": "", "mapped_from": "/app"}
    )
    with Reproducer.open(run.collector.sealed[0].path) as reproducer:
        assert reproducer.code("fatbin") == image
        assert reproducer.code("cubin") == CUBIN and reproducer.code("ptx") == PTX_TEXT
    assert manifest.compiled["image_mapped_from"] == schema.StrValue(value="/app")


def test_of_a_library_only_what_this_device_runs(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    image = fatbin(entry(cubin(80), 80), entry(CUBIN, 90))
    monkeypatch.setattr("kerncap.capture.native_seal.MAX_FATBIN_STORED", len(image) - 1)
    assert MAX_FATBIN_STORED == 64 << 20
    manifest = run.sealed(image, image={"file": "code/fatbin-1", "kind": "fatbin"})
    assert [code.stage for code in manifest.code] == ["cubin"]
    assert any("only what this device runs" in note for note in manifest.notes)


@pytest.mark.parametrize(
    ("image", "record", "note"),
    [
        (None, None, "did not see it being loaded"),
        (None, {"file": "code/elf-1", "kind": "elf"}, "No such file"),
        (b"nonsense", {"file": "code/x-1", "kind": "unknown"}, "could not be parsed"),
    ],
)
def test_an_image_that_is_not_there_costs_the_image_alone(
    run: Run, image: bytes | None, record: dict[str, Any] | None, note: str
) -> None:
    assert any(note in text for text in run.sealed(image, image=record).notes)


def test_the_source_is_asked_for_with_all_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def find(request: Any) -> languages.FoundSource:
        asked.append(request)
        file = languages.FoundFile("scale.cu", "/src/scale.cu", b"__global__ void scale() {}\n")
        return languages.FoundSource(
            entry="scale",
            files=(file,),
            file="scale.cu",
            kernel_file="/src/scale.cu",
            kernel_line=3,
            notes=("by -g",),
        )

    monkeypatch.setattr(languages, "find", find)
    session = bare_session(tmp_path / "session")
    output = tmp_path / "out"
    output.mkdir()
    process = RecordedProcess(session.folder, shim="cuda")
    (process.folder / "program-3.json").write_text("{}")
    process.native(0, CUBIN, program="program-3.json")
    process.complete(0)
    process.end()
    one = Sealer(session, output, ["./app"], {}, source_dirs=[tmp_path])
    collector = Collector(session.folder, one)
    collector.finish(TargetResult(0, 4242))
    [request] = asked
    assert (request.mangled, request.demangled, request.cubin) == (MANGLED, DEMANGLED, CUBIN)
    assert (request.kind, request.arch, request.executable) == ("elf", "sm_90", "/app")
    assert request.source_dirs == (tmp_path,) and request.program == process.folder / "program-3.json"
    with Reproducer.open(collector.sealed[0].path) as reproducer:
        manifest = reproducer.manifest
        assert (manifest.kernel.file, manifest.kernel.line) == ("/src/scale.cu", 3)
        assert manifest.source is not None and manifest.source.language == "cuda"
        assert reproducer.source_text() == "__global__ void scale() {}\n"
        assert "by -g" in manifest.notes
