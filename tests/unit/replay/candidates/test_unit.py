"""What is compiled: the stored files with a candidate's laid over them, and recipes that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kerncap.capture import languages
from kerncap.errors import BackendUnavailable, FormatError, UsageError
from kerncap.format import Reproducer, schema
from kerncap.replay import candidates
from kerncap.replay.candidates import BuildError, tools
from kerncap.replay.candidates.build import explicit_instantiation
from kerncap.replay.candidates.unit import stage
from tests.unit.replay.candidates.conftest import Make

PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n ret;\n}\n"


@pytest.fixture
def app(tmp_path: Path, make: Make) -> Reproducer:
    """A unit with two headers of one name."""
    for name, text in (
        (
            "src/k.cu",
            '#include "a/i.h"\n#include "../b/i.h"\nextern "C" __global__ void k(int *x) { *x = A + B; }\n',
        ),
        ("src/a/i.h", "#define A 1\n"),
        ("b/i.h", "#define B 2\n"),
    ):
        (tmp_path / "app" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "app" / name).write_text(text)
    found = languages.find(languages.SourceRequest("k", source_dirs=(tmp_path / "app",)))
    assert {file.path for file in found.files} == {"src/k.cu", "src/a/i.h", "b/i.h"}
    return make(found, "k")


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


class TestOverlay:
    def test_the_stored_unit_changes_nothing(self, app: Reproducer) -> None:
        staged = stage(app, app.path / "source" / "src" / "k.cu")
        assert staged.edited == [] and staged.unit == "source/src/k.cu"
        assert staged.files["source/b/i.h"] == b"#define B 2\n"

    def test_a_header_replaces_the_one_that_it_is_named_like(self, app: Reproducer, tmp_path: Path) -> None:
        for place, replaced in (("x/a/i.h", "source/src/a/i.h"), ("x/b/i.h", "source/b/i.h")):
            staged = stage(app, write(tmp_path / place, "// edited\n"))
            assert staged.edited == [replaced]

    def test_any_other_name_replaces_the_unit(self, app: Reproducer, tmp_path: Path) -> None:
        staged = stage(app, write(tmp_path / "mine" / "variant.cu", "// mine\n"))
        assert staged.edited == ["source/src/k.cu"]
        assert staged.files["source/src/k.cu"] == b"// mine\n"

    def test_files_beside_a_candidate_are_edits_too(self, app: Reproducer, tmp_path: Path) -> None:
        write(tmp_path / "copy" / "b" / "i.h", "#define B 200\n")
        staged = stage(app, write(tmp_path / "copy" / "src" / "k.cu", "// edited\n"))
        assert staged.edited == ["source/src/k.cu", "source/b/i.h"]

    def test_a_header_of_another_unit_is_refused(self, app: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match=r"a header that the unit does not have; it has b/i\.h"):
            stage(app, write(tmp_path / "other.h", ""))

    def test_an_edit_inside_the_reproducer_serves_as_a_candidate(self, app: Reproducer) -> None:
        path = app.path / "source" / "src" / "a" / "i.h"
        path.write_text("#define A 100\n")
        assert stage(app, path).edited == ["source/src/a/i.h"]

    def test_a_stored_file_that_was_damaged_is_not_used(self, app: Reproducer, tmp_path: Path) -> None:
        (app.path / "source" / "b" / "i.h").write_text("#define B 3\n")
        with pytest.raises(FormatError, match="damaged"):
            stage(app, write(tmp_path / "variant.cu", ""))


def changed(**fields: object) -> Callable[[schema.Source], schema.Source]:
    def change(source: schema.Source) -> schema.Source:
        assert source.build is not None
        return msgspec.structs.replace(source, build=msgspec.structs.replace(source.build, **fields))

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (changed(options=("-include=source/none.h",)), "is not allowed"),
        (changed(options=("-o/tmp/x",)), "is not allowed"),
        (changed(include_dirs=(schema.IncludeFolder(path="/x", stored="source/$(id)"),)), "is not allowed"),
    ],
)
def test_a_strangers_recipe_is_refused(
    change: Callable[[schema.Source], schema.Source], message: str, tmp_path: Path, make: Make
) -> None:
    unit = write(tmp_path / "app" / "k.cu", 'extern "C" __global__ void k(int *x) { }\n')
    found = languages.find(languages.SourceRequest("k", source_dirs=(unit.parent,)))
    with pytest.raises(BuildError, match=message):
        stage(make(found, "k", change=change), unit)


def test_a_file_name_that_a_shell_would_read_is_refused(tmp_path: Path, make: Make) -> None:
    unit = write(tmp_path / "app" / "$(id).cu", 'extern "C" __global__ void k(int *x) { }\n')
    found = languages.find(languages.SourceRequest("k", source_dirs=(unit.parent,)))
    with pytest.raises(BuildError, match="can't be given a file called"):
        stage(make(found, "k"), unit)


def test_original_folders_with_such_names_are_not_searched(tmp_path: Path, make: Make) -> None:
    unit = write(tmp_path / "app" / "k.cu", 'extern "C" __global__ void k(int *x) { }\n')
    odd, plain = tmp_path / "$(id)", tmp_path / "plain"
    odd.mkdir()
    plain.mkdir()
    folders = tuple(schema.IncludeFolder(path=str(each)) for each in (odd, plain, tmp_path / "gone"))
    found = languages.find(languages.SourceRequest("k", source_dirs=(unit.parent,)))
    staged = stage(make(found, "k", change=changed(include_dirs=folders)), unit)
    assert staged.include_folders(Path("/staged")) == [("angle", str(plain)), ("quote", str(unit.parent))]


class TestRefusals:
    def test_no_recipe(self, tmp_path: Path, make: Make) -> None:
        ptx_only = make(languages.find(languages.SourceRequest("k", ptx=PTX)), "k")
        with pytest.raises(BuildError, match="does not say how its kernel was compiled"):
            candidates.build(ptx_only, write(tmp_path / "k.cu", ""), "sm_90", tmp_path)

    def test_a_suffix_that_is_no_source(self, app: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"\.cu"):
            candidates.build(app, write(tmp_path / "k.py", ""), "sm_90", tmp_path)

    def test_an_architecture_that_is_none(self, app: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="expected an architecture"):
            candidates.build(app, write(tmp_path / "k.cu", ""), "-o/x", tmp_path)

    def test_no_compiler(self, app: Reproducer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tools, "nvcc", lambda python=None: "there is no nvcc: install the CUDA toolkit")
        with pytest.raises(BackendUnavailable, match="nvcc is not available: there is no nvcc"):
            candidates.build(app, write(tmp_path / "k.cu", ""), "sm_90", tmp_path)


class TestPtx:
    def test_it_comes_back_as_it_is(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(languages.find(languages.SourceRequest("k", ptx=PTX)), "k")
        edited = write(tmp_path / "edited.ptx", PTX.replace("ret;", "bar.sync 0;\n ret;"))
        assert candidates.build(reproducer, edited, "sm_90", tmp_path) == edited

    def test_another_kernels_is_named(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(languages.find(languages.SourceRequest("k", ptx=PTX)), "k")
        with pytest.raises(BuildError, match=r"no \.entry k; it has other"):
            candidates.build(
                reproducer,
                write(tmp_path / "o.ptx", PTX.replace("entry k(", "entry other(")),
                "sm_90",
                tmp_path,
            )


@pytest.mark.parametrize(
    ("demangled", "line"),
    [
        ("void A::scale<float>(float*, int)", "template __global__ void A::scale<float>(float*, int);"),
        ("void (anonymous namespace)::f<3ul>()", "template __global__ void f<3ul>();"),
        ("void each<run(float*)::{lambda(int)#1}>(run(float*)::{lambda(int)#1}, int)", None),
        ("plain(int)", None),
    ],
)
def test_explicit_instantiations(demangled: str, line: str | None) -> None:
    from kerncap.format.kernel_names import parse

    assert explicit_instantiation(parse("_Z", demangled)) == line


class TestTools:
    def test_the_first_place_that_has_one_wins(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        script = write(tmp_path / "cuda" / "bin" / "nvcc", "#!/bin/sh\necho 'Build V12.34.56'\n")
        script.chmod(0o755)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
        found = tools.nvcc()
        assert isinstance(found, tools.Tool)
        assert (found.path, found.version) == (script, "12.34.56")

    def test_one_that_does_not_run_is_passed_over(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        script = write(tmp_path / "cuda" / "bin" / "nvcc", "#!/bin/sh\nexit 1\n")
        script.chmod(0o755)
        monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
        found = tools.nvcc()
        assert isinstance(found, str) or found.path != script

    def test_the_newest_library_of_a_wheel(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        library = tmp_path / "env" / "lib" / "python3.12" / "site-packages" / "nvidia" / "cu99" / "lib"
        for name in ("libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.alt.so.13", "libnvrtc-builtins.so.13.0"):
            write(library / name, "")
        for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setattr(tools.sys, "path", [])
        monkeypatch.setattr(tools.sys, "executable", "")
        found = tools.nvrtc(str(tmp_path / "env" / "bin" / "python"))
        assert isinstance(found, tools.Tool)
        assert found.path == library / "libnvrtc.so.13"

    def test_every_compiler_is_a_tool_or_a_reason(self) -> None:
        for name, found in candidates.available().items():
            assert isinstance(found, tools.Tool) or "install" in found or "does not run" in found, name
