"""Edited CUDA C++ files, compiled with nvcc as the application's were."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from kerncap.capture import languages
from kerncap.errors import BackendUnavailable
from kerncap.format import schema
from kerncap.format.elf import Elf
from kerncap.replay import candidates
from kerncap.replay.candidates import BuildError, symbols, tools
from tests.unit.replay.candidates.conftest import Make

ARCH = "sm_90"
HEADER = "#pragma once\n#define FACTOR {}\n"
UNIT = """
#include "{header}"
namespace app {{
template <typename T> __global__ void scale(T *x, int n) {{
    int i = threadIdx.x;
    if (i < n) x[i] *= FACTOR;
}}
}}
void run(float *x) {{ app::scale<float><<<1, 32>>>(x, 32); }}
"""
LAMBDA = """
template <typename F> __global__ void each(F f) { f(threadIdx.x); }
void more(float *x) { each<<<1, 32>>>([=] __device__(int i) { x[i] = 0; }); }
"""
SCALE = ("_ZN3app5scaleIfEEvPT_i", "void app::scale<float>(float*, int)")


def project(folder: Path) -> languages.FoundSource:
    """A unit with a header in a folder of its own, as compile_commands.json says."""
    (folder / "include").mkdir(parents=True)
    (folder / "src").mkdir()
    (folder / "include" / "factor.h").write_text(HEADER.format("2.0f"))
    (folder / "src" / "scale.cu").write_text(UNIT.format(header="factor.h"))
    entry = {
        "directory": str(folder),
        "file": "src/scale.cu",
        "command": "nvcc -Iinclude -O3 -gencode=arch=compute_90,code=sm_90 "
        "-gencode=arch=compute_80,code=sm_80 -c src/scale.cu -o scale.o",
    }
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    found = languages.find(languages.SourceRequest(*SCALE, source_dirs=(folder,), arch=ARCH))
    assert found.file == "src/scale.cu", found
    return found


def kernels(path: Path) -> tuple[str, ...]:
    return symbols.kernels_of_cubin(path.read_bytes())


def code(path: Path, kernel: str) -> bytes:
    elf = Elf(path.read_bytes())
    section = elf.section(f".text.{kernel}")
    assert section is not None
    return bytes(elf.content(section))


def compiled(source: Path, out: Path, *options: str) -> bytes:
    tool = tools.nvcc()
    assert isinstance(tool, tools.Tool)
    subprocess.run(
        [str(tool.path), "-cubin", f"-arch={ARCH}", *options, str(source), "-o", str(out)], check=True
    )
    return out.read_bytes()


# What another unit defines is called by `other`, and by what `k` may come to use.
ELSEWHERE = """
__device__ int elsewhere(int);
__device__ __noinline__ int through(int x) { return elsewhere(x) + 1; }
__device__ __noinline__ int own(int x) { return x * 3; }
__device__ int (*table[2])(int) = {own, own};
extern "C" __global__ void other(int *x) { *x = through(*x); table[0] = through; }
extern "C" __global__ void k(int *x) { *x = own(*x); }
"""


@pytest.mark.usefixtures("nvcc")
class TestNvcc:
    def test_the_unit_as_stored_gives_the_applications_code(self, tmp_path: Path, make: Make) -> None:
        found = project(tmp_path / "app")
        reproducer = make(found, *SCALE)
        tool = tools.nvcc()
        assert isinstance(tool, tools.Tool)
        original = tmp_path / "original.cubin"
        subprocess.run(
            [str(tool.path), "-cubin", f"-arch={ARCH}", f"-I{tmp_path / 'app/include'}", "-O3",
             str(tmp_path / "app" / "src" / "scale.cu"), "-o", str(original)],
            check=True,
        )  # fmt: skip
        built = candidates.build(
            reproducer, reproducer.path / "source/src/scale.cu", ARCH, tmp_path / "a.cubin"
        )
        assert code(built, SCALE[0]) == code(original, SCALE[0])

    def test_a_confined_one_reads_the_application_and_nothing_of_others(
        self, tmp_path: Path, make: Make
    ) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        secret, mine = tmp_path / "hidden" / "secret.h", tmp_path / "mine" / "scale.cu"
        for file in (secret, mine):
            file.parent.mkdir()
        secret.write_text("#define SECRET 1")
        mine.write_bytes((reproducer.path / "source/src/scale.cu").read_bytes())

        def built() -> Path:
            hidden = (secret.parent, reproducer.path)
            made = candidates.compile_candidate(reproducer, mine, ARCH, tmp_path / "a.cubin", hidden=hidden)
            assert not made.cached
            return made.path

        assert kernels(built()) == (SCALE[0],)
        mine.write_text(f'#include "{secret}"\n{mine.read_text()}')
        with pytest.raises(BuildError, match="secret.h"):
            built()

    def test_a_toolkit_that_can_not_be_started_confined_is_no_verdict(
        self, tmp_path: Path, make: Make, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Its own folders may be read, and not where a script leads to."""
        real = tools.nvcc()
        assert isinstance(real, tools.Tool)
        elsewhere, script = tmp_path / "elsewhere" / "nvcc", tmp_path / "tools" / "bin" / "nvcc"
        for file, leads in ((elsewhere, real.path), (script, elsewhere)):
            file.parent.mkdir(parents=True)
            file.write_text(f'#!/bin/sh\nexec {leads} "$@"\n')
            file.chmod(0o755)
        monkeypatch.setenv("CUDA_HOME", str(script.parents[1]))
        reproducer = make(project(tmp_path / "app"), *SCALE)
        unit = reproducer.path / "source/src/scale.cu"
        assert candidates.build(reproducer, unit, ARCH, tmp_path / "a.cubin").is_file()
        (tmp_path / "cache").rename(tmp_path / "another")
        with pytest.raises(BackendUnavailable, match="confined, a part of it can't be started"):
            candidates.compile_candidate(
                reproducer, unit, ARCH, tmp_path / "b.cubin", hidden=(tmp_path / "x",)
            )

    def test_an_edited_header_takes_effect(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        plain = candidates.compile_candidate(
            reproducer, reproducer.path / "source/src/scale.cu", ARCH, tmp_path / "plain.cubin"
        )
        edited = tmp_path / "edit" / "include" / "factor.h"
        edited.parent.mkdir(parents=True)
        edited.write_text(HEADER.format("3.0f"))
        built = candidates.compile_candidate(reproducer, edited, ARCH, tmp_path / "edited.cubin")
        assert built.edited == ("source/include/factor.h",)
        assert plain.edited == ()
        assert code(built.path, SCALE[0]) != code(plain.path, SCALE[0])

    @pytest.mark.long
    def test_a_header_edited_beside_an_edited_unit_takes_effect_too(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        # In place, as a user who goes on in the project would do it.
        (tmp_path / "app" / "include" / "factor.h").write_text(HEADER.format("5.0f"))
        built = candidates.compile_candidate(
            reproducer, tmp_path / "app" / "src" / "scale.cu", ARCH, tmp_path / "edited.cubin"
        )
        assert built.edited == ("source/include/factor.h",)

    def test_the_stored_header_wins_over_the_original_folder(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        unit = tmp_path / "elsewhere.cu"
        unit.write_text(UNIT.format(header="factor.h"))
        before = candidates.build(reproducer, unit, ARCH, tmp_path / "before.cubin")
        (tmp_path / "app" / "include" / "factor.h").write_text('#error "the original is not looked at"\n')
        unit.write_text(UNIT.format(header="factor.h") + "// another text, so that nothing is cached\n")
        after = candidates.build(reproducer, unit, ARCH, tmp_path / "after.cubin")
        assert code(before, SCALE[0]) == code(after, SCALE[0])

    def test_only_the_captured_architecture_is_built(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        assert reproducer.manifest.source is not None and reproducer.manifest.source.build is not None
        assert not any(
            "arch" in option or "code" in option for option in reproducer.manifest.source.build.options
        )
        built = candidates.build(reproducer, reproducer.path / "source/src/scale.cu", ARCH, tmp_path)
        assert built == tmp_path / "scale.cubin"
        assert kernels(built) == (SCALE[0],)

    @pytest.mark.long
    def test_a_template_that_nothing_uses_is_instantiated(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        unit = tmp_path / "alone.cu"
        unit.write_text(UNIT.format(header="factor.h").partition("void run")[0])
        assert SCALE[0] in kernels(candidates.build(reproducer, unit, ARCH, tmp_path / "made.cubin"))

    @pytest.mark.long
    def test_a_unit_whose_options_nobody_wrote_down_may_hold_device_lambdas(
        self, tmp_path: Path, make: Make
    ) -> None:
        found = project(tmp_path / "project")
        path = tmp_path / "scale.cu"
        path.write_text(UNIT.format(header="factor.h") + LAMBDA)

        def forgotten(source: schema.Source) -> schema.Source:
            assert source.build is not None
            build = msgspec.structs.replace(source.build, options=("-lineinfo",), directory=None)
            return msgspec.structs.replace(source, build=build)

        reproducer = make(found, *SCALE, change=forgotten)
        image = candidates.build(reproducer, path, ARCH, tmp_path)
        assert any("each" in name for name in kernels(image))

    def test_a_renamed_kernel_is_named(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        unit = tmp_path / "renamed.cu"
        unit.write_text('extern "C" __global__ void faster(float *x) { *x = 1; }\n')
        with pytest.raises(BuildError, match="no kernel app::scale, it has faster"):
            candidates.build(reproducer, unit, ARCH, tmp_path / "made.cubin")

    def test_other_parameters_are_named(self, tmp_path: Path, make: Make) -> None:
        unit = tmp_path / "add.cu"
        unit.write_text("__global__ void add(float *x) { *x += 1; }\n")
        found = languages.find(languages.SourceRequest("_Z3addPf", "add(float*)", source_dirs=(tmp_path,)))
        reproducer = make(found, "_Z3addPf", "add(float*)")
        unit.write_text("__global__ void add(double *x) { *x += 1; }\n")
        with pytest.raises(BuildError, match=r"_Z3addPf was captured, here: _Z3addPd"):
            candidates.build(reproducer, unit, ARCH, tmp_path / "made.cubin")

    def test_the_compilers_own_words_come_with_the_error(self, tmp_path: Path, make: Make) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        unit = tmp_path / "scale.cu"
        unit.write_text(UNIT.format(header="factor.h").replace("FACTOR", "undefined_name"))
        with pytest.raises(BuildError, match="undefined_name") as caught:
            candidates.build(reproducer, unit, ARCH, tmp_path / "made.cubin")
        assert "source/src/scale.cu(" in caught.value.detail
        assert "kerncap-build-" not in caught.value.detail

    @pytest.mark.long
    def test_names_with_the_files_hash_come_back_as_captured(self, tmp_path: Path, make: Make) -> None:
        """The compiler makes the names of anonymous namespaces of the file's path."""
        app = tmp_path / "app"
        app.mkdir()
        (app / "hidden.cu").write_text(
            "namespace { __device__ int calls; __global__ void hidden(int *x) { *x = ++calls; } }\n"
            "void run(int *x) { hidden<<<1, 1>>>(x); }\n"
        )
        image = compiled(app / "hidden.cu", tmp_path / "app.cubin")
        (captured,) = symbols.kernels_of_cubin(image)
        (variable,) = [name for name in symbols.variables_of_cubin(image) if "calls" in name]
        found = languages.find(
            languages.SourceRequest(captured, "(anonymous namespace)::hidden(int*)", source_dirs=(app,))
        )
        reproducer = make(found, captured, "(anonymous namespace)::hidden(int*)", (variable,))
        built = candidates.build(reproducer, reproducer.path / "source/hidden.cu", ARCH, tmp_path / "b.cubin")
        assert kernels(built) == (captured,)
        assert variable in symbols.variables_of_cubin(built.read_bytes())

    def test_a_unit_of_a_relocatable_program_is_built_whole(self, tmp_path: Path, make: Make) -> None:
        app = tmp_path / "app"
        app.mkdir()
        (app / "static.cu").write_text(
            "static __global__ void hidden(int *x) { *x = 1; }\nvoid run(int *x) { hidden<<<1, 1>>>(x); }\n"
        )
        entry = {"directory": str(app), "file": "static.cu", "arguments": ["nvcc", "-rdc=true", "static.cu"]}
        (app / "compile_commands.json").write_text(json.dumps([entry]))
        image = compiled(app / "static.cu", tmp_path / "app.cubin", "-rdc=true")
        (captured,) = symbols.kernels_of_cubin(image)
        assert captured.startswith("__nv_static_")
        found = languages.find(languages.SourceRequest(captured, captured, source_dirs=(app,), cubin=image))
        assert any("links no device code of other units" in note for note in found.notes)
        reproducer = make(found, captured)
        built = candidates.build(reproducer, reproducer.path / "source/static.cu", ARCH, tmp_path / "b.cubin")
        assert kernels(built) == (captured,)

    def test_only_what_the_kernel_leads_to_has_to_be_defined(self, tmp_path: Path, make: Make) -> None:
        """Another unit, which nvlink linked with this one, may define the rest."""
        app = tmp_path / "app"
        app.mkdir()
        (app / "k.cu").write_text(ELSEWHERE)
        found = languages.find(languages.SourceRequest("k", "k", source_dirs=(app,), arch=ARCH))
        reproducer = make(found, "k")
        candidate = tmp_path / "k.cu"
        for new in ("own(*x)", "2 + own(*x) - 2"):
            candidate.write_text(ELSEWHERE.replace("*x = own(*x)", f"*x = {new}"))
            built = candidates.build(reproducer, candidate, ARCH, tmp_path / "made.cubin")
            assert kernels(built) == ("k",)
            whole = candidate.with_name("whole.cu")
            whole.write_text(candidate.read_text() + "__device__ int elsewhere(int x) { return x; }\n")
            compiled(whole, tmp_path / "whole.cubin")
            assert code(built, "k") == code(tmp_path / "whole.cubin", "k")
        for new in ("elsewhere(*x)", "through(*x)"):
            candidate.write_text(ELSEWHERE.replace("*x = own(*x)", f"*x = {new}"))
            with pytest.raises(BackendUnavailable, match="k needs elsewhere, which its unit does not define"):
                candidates.build(reproducer, candidate, ARCH, tmp_path)

    def test_a_variable_of_another_unit_has_its_captured_content_or_none(
        self, tmp_path: Path, make: Make
    ) -> None:
        """Compiled alone, the unit has variables of its own in their places, with zeros."""
        app = tmp_path / "app"
        app.mkdir()
        text = "namespace far { extern __device__ int known, unknown; }\n"
        text += 'extern "C" __global__ void other(int *x) { *x = far::unknown; }\n'
        text += 'extern "C" __global__ void k(int *x) { *x += far::known; }\n'
        (app / "k.cu").write_text(text)
        found = languages.find(languages.SourceRequest("k", "k", source_dirs=(app,), arch=ARCH))
        reproducer = make(found, "k", globals_=("_ZN3far5knownE",))
        candidate = tmp_path / "k.cu"
        candidate.write_text(text.replace("+= far::known", "+= 2 * far::known"))
        built = candidates.build(reproducer, candidate, ARCH, tmp_path / "made.cubin")
        assert "_ZN3far5knownE" in symbols.variables_of_cubin(built.read_bytes())
        candidate.write_text(text.replace("+= far::known", "+= far::unknown"))
        with pytest.raises(BackendUnavailable, match="k needs far::unknown, which its unit does not define;"):
            candidates.build(reproducer, candidate, ARCH, tmp_path)

    def test_what_was_built_once_is_kept_until_something_changes(
        self, tmp_path: Path, make: Make, own_cache: Path
    ) -> None:
        reproducer = make(project(tmp_path / "app"), *SCALE)
        near = tmp_path / "near.h"
        near.write_text("#define NEAR 1\n")
        unit = tmp_path / "scale.cu"
        unit.write_text('#include "near.h"\n' + UNIT.format(header="factor.h").replace("FACTOR", "NEAR"))
        first = candidates.compile_candidate(reproducer, unit, ARCH, tmp_path / "first.cubin")
        again = candidates.compile_candidate(reproducer, unit, ARCH, tmp_path / "again.cubin")
        assert (first.cached, again.cached) == (False, True)
        assert first.path.read_bytes() == again.path.read_bytes()
        assert len(list(own_cache.iterdir())) == 1
        near.write_text("#define NEAR 1 + 41\n")  # a header that the reproducer has never seen
        assert not candidates.compile_candidate(reproducer, unit, ARCH, tmp_path / "c.cubin").cached

    def test_kernels_without_parameters_are_seen(self, tmp_path: Path) -> None:
        (tmp_path / "none.cu").write_text('__device__ int x;\nextern "C" __global__ void none() { x = 1; }\n')
        assert symbols.kernels_of_cubin(compiled(tmp_path / "none.cu", tmp_path / "none.cubin")) == ("none",)

    def test_a_recipe_never_reaches_a_shell(self, tmp_path: Path, make: Make) -> None:
        """nvcc hands its steps to one: what a stranger's recipe says must not be run by it."""
        found = project(tmp_path / "app")
        mark = tmp_path / "mark"
        for option in (
            f"-DX=$(touch {mark})",
            f"-DX=`touch {mark}`",
            "-ccbin=/bin/sh",
            "-Xcompiler=-fplugin=x.so",
        ):
            reproducer = make(found, *SCALE, change=_with_option(option))
            with pytest.raises(BuildError, match="is not allowed"):
                candidates.build(
                    reproducer, reproducer.path / "source/src/scale.cu", ARCH, tmp_path / "m.cubin"
                )
        assert not mark.exists()


def _with_option(option: str) -> Callable[[schema.Source], schema.Source]:
    def change(source: schema.Source) -> schema.Source:
        assert source.build is not None
        build = msgspec.structs.replace(source.build, options=(*source.build.options, option))
        return msgspec.structs.replace(source, build=build)

    return change
