"""The source of a kernel, found every way that there is, and the reason where there is none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from kerncap.capture.languages import SourceRequest, find, is_known
from kerncap.capture.languages.vendor_libraries import vendor_library
from kerncap.capture.source.native import compile_commands, locate, unit
from kerncap.format import schema
from tests.unit.source.native.conftest import image

SCALE = "template <class T> __global__ void scale(T *x, int n) {\n  x[0] *= T(n);\n}\n"
NAMES = ("_ZN1x5scaleIfEEvPT_i", "void x::scale<float>(float*, int)")


def two_headers(folder: Path) -> Path:
    """x/impl.h and y/impl.h, each with a kernel called scale, in one unit (case 16)."""
    for name in ("x", "y"):
        (folder / name).mkdir(parents=True)
        (folder / name / "impl.h").write_text(f"#pragma once\nnamespace {name} {{\n{SCALE}}}\n")
    main = folder / "main.cu"
    main.write_text(
        '#include "x/impl.h"\n#include "y/impl.h"\n#include <cstdio>\n'
        "void run(float *p) { x::scale<<<1, 1>>>(p, 1); y::scale<<<1, 1>>>(p, 1); }\n"
    )
    return main


def tables(main: Path, files: list[tuple[str, int]], *lines: tuple[int, int]) -> bytes:
    return image(
        [NAMES[0]], [str(main.parent), str(main.parent / "x"), str(main.parent / "y")], files, [lines]
    )


class TestLineTables:
    def test_the_right_one_of_two_headers_of_one_name(self, tmp_path: Path) -> None:
        main = two_headers(tmp_path)
        cubin = tables(main, [("impl.h", 2), ("impl.h", 3)], (2, 3), (2, 4))
        # The lines lie in y/impl.h: they say more than the name does.
        found = find(SourceRequest(*NAMES, cubin=cubin))
        assert (found.kernel_file, found.kernel_line, found.file) == (
            str(main.parent / "y/impl.h"),
            3,
            "y/impl.h",
        )
        assert {file.path for file in found.files} == {"main.cu", "x/impl.h", "y/impl.h"}
        assert found.build is not None and found.build.unit == "source/main.cu"
        assert found.build.external == ("cstdio",)
        (origin,) = found.origins
        assert (origin.line, origin.lines, origin.original_file) == (3, 3, found.kernel_file)

    def test_a_kernel_of_an_installed_library_comes_with_its_unit(self, tmp_path: Path) -> None:
        """Reached through another library; a macro of a third header makes it a kernel."""
        main = tmp_path / "app" / "main.cu"
        installed = {
            "crt/host_defines.h": "",  # a toolkit's
            "outer/outer.hpp": "#include <inner/inner.hpp>\n",
            "inner/inner.hpp": '#include "device/scale.hpp"\n#include <other.h>\n',
            "inner/config.hpp": "#define INNER_KERNEL __global__\n",
            "inner/device/scale.hpp": '#include "../config.hpp"\nnamespace x {\n'
            + SCALE.replace("__global__", "INNER_KERNEL")
            + "}\n",
            "inner/unused.hpp": "",
            "other.h": "",
        }
        include = tmp_path / "sdk" / "include"
        files = {include / name: text for name, text in installed.items()}
        files[main] = "#include <outer/outer.hpp>\n#include <cstdio>\n"
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        folders = [str(main.parent), str(include / "inner" / "device")]
        cubin = image([NAMES[0]], folders, [("main.cu", 1), ("scale.hpp", 2)], [[(2, 3), (2, 4)]])

        found = find(SourceRequest(*NAMES, cubin=cubin))
        kernel_file = include / "inner" / "device" / "scale.hpp"
        assert (found.kernel_file, found.kernel_line) == (str(kernel_file), 3), found.missing
        build = found.build
        assert build is not None and build.unit == "source/app/main.cu"
        kept = {f"sdk/include/inner/{name}" for name in ("inner.hpp", "config.hpp", "device/scale.hpp")}
        assert {file.path for file in found.files} == {"app/main.cu", *kept}
        assert build.external == ("outer/outer.hpp", "cstdio")
        (folder,) = build.include_dirs  # an edited header is found before the installed one
        assert (folder.path, folder.stored) == (str(include), "source/sdk/include")

    def test_a_file_that_is_no_source_is_not_taken(self, tmp_path: Path) -> None:
        key = tmp_path / "id_rsa"
        key.write_text("a secret\n" * 8)
        cubin = image([NAMES[0]], [str(tmp_path)], [("id_rsa", 1)], [[(1, 3)]])
        request = SourceRequest(*NAMES, cubin=cubin)
        assert not is_known(request)
        found = find(request)
        assert not found.files
        assert found.missing is not None and "id_rsa, which holds no kernel" in found.missing

    def test_a_file_that_is_not_here_is_named(self) -> None:
        cubin = image([NAMES[0]], ["/nowhere/src"], [("scale.cuh", 1)], [[(1, 3)]])
        found = find(SourceRequest(*NAMES, cubin=cubin))
        assert found.file is None
        assert found.missing == (
            "the line tables name /nowhere/src/scale.cuh, which is not on this machine: give --source-dir"
        )
        assert not is_known(SourceRequest(*NAMES, cubin=cubin))

    def test_a_source_dir_takes_the_place_of_the_build_machines_folder(self, tmp_path: Path) -> None:
        main = two_headers(tmp_path / "checkout")
        cubin = image([NAMES[0]], ["/build/machine/y"], [("impl.h", 1)], [[(1, 3)]])
        found = find(SourceRequest(*NAMES, cubin=cubin, source_dirs=(main.parent,)))
        assert found.kernel_file == str(main.parent / "y" / "impl.h")
        assert any(note.startswith("/build/machine/y/impl.h was taken from") for note in found.notes)

    def test_an_edited_file_is_said(self, tmp_path: Path, cubin_of: Callable[..., bytes]) -> None:
        main = two_headers(tmp_path)
        cubin = cubin_of(main, "-lineinfo")
        assert not any("was changed" in note for note in find(SourceRequest(*NAMES, cubin=cubin)).notes)
        header = tmp_path / "x" / "impl.h"
        header.write_text(header.read_text() + "// more\n")
        assert (
            f"{header} was changed since the program was compiled"
            in find(SourceRequest(*NAMES, cubin=cubin)).notes
        )

    def test_what_the_assembler_was_told_is_told_again(
        self, tmp_path: Path, cubin_of: Callable[..., bytes]
    ) -> None:
        found = find(SourceRequest(*NAMES, cubin=cubin_of(two_headers(tmp_path), "-G", "-maxrregcount=40")))
        assert found.build is not None
        assert found.build.options == ("-G", "-maxrregcount=40", "--expt-relaxed-constexpr")
        assert (found.build.arch, found.build.compiler is not None) == ("sm_90", True)

    def test_a_kernel_that_no_definition_is_seen_of(self, tmp_path: Path) -> None:
        (tmp_path / "odd.cu").write_text('#include "macros.h"\nSOMETHING(scale) { }\n')
        cubin = image([NAMES[0]], [str(tmp_path)], [("odd.cu", 1)], [[(1, 2)]])
        found = find(SourceRequest(*NAMES, cubin=cubin))
        assert (found.file, found.kernel_line) == ("odd.cu", 2)
        assert any("no definition of scale was seen" in note for note in found.notes)

    def test_damage_is_a_reason(self) -> None:
        found = find(SourceRequest(*NAMES, cubin=b"\x7fELF\x02\x01" + bytes(range(200))))
        assert found.missing is not None and found.missing.startswith("the image's line tables are damaged")

    def test_a_lambdas_function_is_an_origin_too(
        self, tmp_path: Path, cubin_of: Callable[..., bytes]
    ) -> None:
        source = tmp_path / "each.cu"
        source.write_text(
            "template <class F> __global__ void each(F f) { f(threadIdx.x); }\n"
            "void run(float *x) {\n  each<<<1, 32>>>([=] __device__ (int i) { x[i] = 1; });\n}\n"
        )
        cubin = cubin_of(source, "-lineinfo", "--extended-lambda")
        names = (
            "_Z4eachIZ3runPfEUliE_EvT_",
            "void each<run(float*)::{lambda(int)#1}>(run(float*)::{lambda(int)#1})",
        )
        found = find(SourceRequest(*names, cubin=cubin))
        assert [(origin.name, origin.line) for origin in found.origins] == [("each", 1), ("run", 2)]
        assert found.build is not None and "--extended-lambda" in found.build.options


class TestByName:
    def test_a_source_dir(self, tmp_path: Path) -> None:
        main = two_headers(tmp_path)
        request = SourceRequest(*NAMES, source_dirs=(tmp_path,))
        assert is_known(request)
        found = find(request)
        assert (found.kernel_file, found.kernel_line) == (str(main.parent / "x" / "impl.h"), 3)
        assert any("no line table proves" in note for note in found.notes)

    def test_the_copies_in_reproducers_are_not_the_projects(self, tmp_path: Path) -> None:
        for folder in (tmp_path, tmp_path / "kerncap-out" / "k-1" / "source"):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "k.cu").write_text('extern "C" __global__ void k(int *x) {}\n')
        copy = SourceRequest("k", source_dirs=(tmp_path,))
        assert "2 definitions" in (find(copy).missing or "")
        locate._folder_index.cache_clear()
        (tmp_path / "kerncap-out" / "k-1" / "manifest.json").write_text("{}")
        assert find(copy).kernel_file == str(tmp_path / "k.cu")

    def test_two_that_fit_are_listed(self, tmp_path: Path) -> None:
        for name in ("a.cu", "b.cu"):
            (tmp_path / name).write_text('extern "C" __global__ void twin(int *x) { }\n')
        request = SourceRequest("twin", source_dirs=(tmp_path,))
        assert not is_known(request)
        missing = find(request).missing
        assert missing is not None and missing.startswith("2 definitions may be this kernel: ")
        assert f"{tmp_path}/a.cu:1" in missing and f"{tmp_path}/b.cu:1" in missing

    def test_the_file_beside_the_program(self, tmp_path: Path) -> None:
        (tmp_path / "app.cu").write_text('extern "C" __global__ void mine(int *x) { }\nint main() { }\n')
        request = SourceRequest("mine", mapped_from=str(tmp_path / "app"), cwd=Path("/"))
        assert is_known(request) and find(request).file == "app.cu"
        assert not is_known(SourceRequest("yours", mapped_from=str(tmp_path / "app"), cwd=Path("/")))

    def test_a_file_beside_the_program_with_another_namespace_is_another_kernel(self, tmp_path: Path) -> None:
        (tmp_path / "app.cu").write_text("__global__ void reduce(int *x) { }\n")
        names = ("_ZN2at6native6reduceEPi", "at::native::reduce(int*)")
        beside = SourceRequest(*names, mapped_from=str(tmp_path / "app"))
        assert not is_known(beside)
        torch = "/v/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so"
        installed = SourceRequest("_Z6reducePi", "reduce(int*)", mapped_from=torch, cwd=tmp_path)
        assert not is_known(installed)
        assert is_known(SourceRequest("_Z6reducePi", "reduce(int*)", mapped_from=str(tmp_path / "app")))

    def test_namespaces_that_a_macro_opens(self, tmp_path: Path) -> None:
        (tmp_path / "k.cu").write_text(
            "OPEN_NAMESPACES\nnamespace z { __global__ void k(int *x) { } }\nCLOSE\n"
        )
        names = ("_ZN1a1z1kEPi", "a::z::k(int*)")
        assert find(SourceRequest(*names, source_dirs=(tmp_path,))).file == "k.cu"
        assert find(SourceRequest("_ZN1q1kEPi", "q::k(int*)", source_dirs=(tmp_path,))).file is None

    def test_a_macro_of_a_header_that_makes_kernels(self, tmp_path: Path) -> None:
        (tmp_path / "macros.h").write_text("#define DEFINE(name) __global__ void name##_kernel(int *x)\n")
        (tmp_path / "use.cu").write_text('#include "macros.h"\nnamespace n {\nDEFINE(fast) { *x = 1; }\n}\n')
        found = find(SourceRequest("_ZN1n11fast_kernelEPi", "n::fast_kernel(int*)", source_dirs=(tmp_path,)))
        assert (found.file, found.kernel_line) == ("use.cu", 3)


class TestCompileCommands:
    def project(self, folder: Path, command: str, below: str = "build") -> None:
        for name in ("src", "include/lib", "generated"):
            (folder / name).mkdir(parents=True)
        (folder / "src" / "k.cu").write_text(
            '#include "lib/k.h"\n#include <lib/angled.h>\n#include "local.h"\n'
            '#ifdef NEVER\n#include "not_there.h"\n#endif\n// #include "commented.h"\n'
            'extern "C" __global__ void k(int *x) { *x = VALUE; }\n'
        )
        (folder / "src" / "local.h").write_text("#pragma once\n")
        (folder / "include" / "lib" / "k.h").write_text('#include "deep.h"\n')
        (folder / "include" / "lib" / "deep.h").write_text('#include "../lib/k.h"\n')
        (folder / "include" / "lib" / "angled.h").write_text("")
        (folder / "generated" / "forced.h").write_text("#define FORCED 1\n")
        place = folder / below
        place.mkdir(exist_ok=True)
        entry = {"directory": str(folder / "src"), "file": "k.cu", "command": command}
        (place / "compile_commands.json").write_text(json.dumps([entry]))

    def test_flags_folders_and_headers(self, tmp_path: Path) -> None:
        self.project(
            tmp_path / "p",
            '/usr/local/cuda/bin/nvcc -forward-unknown-to-host-compiler -DVALUE=3 -D NAME=\\"a\\" '
            "-I../include "
            "-isystem /opt/none -include ../generated/forced.h -O3 -std=c++17 --use_fast_math "
            '"--generate-code=arch=compute_80,code=[compute_80,sm_80]" -Xcompiler=-fPIC -Xptxas -O2 '
            "-ccbin /usr/bin/g++ -x cu -dc k.cu -o k.o",
        )
        found = find(SourceRequest("k", mapped_from=str(tmp_path / "p" / "build" / "app"), arch="sm_90"))
        assert {file.path for file in found.files} == {
            "src/k.cu", "src/local.h", "include/lib/k.h", "include/lib/deep.h", "include/lib/angled.h",
            "generated/forced.h",
        }  # fmt: skip
        build = found.build
        assert build is not None
        assert build.options == (
            "-DVALUE=3", '-DNAME="a"', "-O3", "-std=c++17", "--use_fast_math", "-Xptxas=-O2",
            "-include=source/generated/forced.h",
        )  # fmt: skip
        folders = [(folder.path, folder.form, folder.stored) for folder in build.include_dirs]
        assert folders == [
            (str(tmp_path / "p" / "include"), "angle", "source/include"),
            ("/opt/none", "system", None),
        ]
        assert build.arch == "sm_90"
        assert build.directory == str(tmp_path / "p" / "src")
        assert any("not_there.h" in note for note in found.notes)
        assert not any("commented.h" in note for note in found.notes)
        assert any("-rdc=true" in note for note in found.notes)

    def test_response_files_are_read(self, tmp_path: Path) -> None:
        self.project(tmp_path / "p", "nvcc --options-file flags.rsp -c k.cu", below=".")
        (tmp_path / "p" / "src" / "flags.rsp").write_text('-I"../include" -DVALUE=9\n')
        found = find(SourceRequest("k", cwd=tmp_path / "p" / "src", executable="/usr/bin/app"))
        assert found.build is not None
        assert found.build.options == ("-DVALUE=9",)
        assert [folder.stored for folder in found.build.include_dirs] == ["source/include"]

    def test_damaged_databases_are_passed_over(self, tmp_path: Path) -> None:
        for text in (
            "",
            "{}",
            "[1]",
            '[{"directory": 3}]',
            "[" * 5000,
            '[{"file": "k.cu", "command": "\'"}]',
        ):
            (tmp_path / "compile_commands.json").write_text(text)
            compile_commands._load.cache_clear()
            assert find(SourceRequest("k", cwd=tmp_path, executable=str(tmp_path / "a"))).file is None


PTX = ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p)\n{\n ret;\n}\n"


class TestNothing:
    @pytest.mark.parametrize(
        ("mapped", "mangled", "library"),
        [
            ("/usr/lib/libcublasLt.so.13", "any", "cuBLAS (libcublasLt.so.13)"),
            (
                "/x/nvidia/cudnn/lib/libcudnn_engines_precompiled.so.9",
                "any",
                "cuDNN (libcudnn_engines_precompiled.so.9)",
            ),
            ("/x/libnccl.so.2", "ncclDevKernel_AllReduce", "NCCL (libnccl.so.2)"),
            ("/x/libcufft.so.12", "vector_fft", "cuFFT (libcufft.so.12)"),
            (None, "nvjet_sm90_tst_128x256_64x4_2x1_v_bz_TNT", "cuBLAS"),
        ],
    )
    def test_vendor_libraries(self, mapped: str | None, mangled: str, library: str) -> None:
        request = SourceRequest(mangled, mapped_from=mapped)
        assert find(request).missing == f"no source exists: vendor library {library}"
        assert not is_known(request)

    def test_a_users_own_names_are_no_vendors(self) -> None:
        for name, mapped in (
            ("gemm", "/home/u/app"),
            ("cudnnlike", "/home/u/app"),
            ("my_nvjet_kernel", None),
        ):
            assert vendor_library(mapped, name) is None

    def test_the_ptx_stands_in(self) -> None:
        found = find(SourceRequest("k", ptx=PTX))
        stored: dict[str, bytes] = {}

        def add(name: str, data: bytes) -> schema.StoredFile:
            stored[name] = data
            return schema.StoredFile(path=f"source/{name}", size=len(data), sha256="0" * 64)

        source = found.store(add)
        assert source is not None and (source.language, source.build) == ("ptx", None)
        assert stored == {"kernel.ptx": PTX.encode()}
        assert found.missing is not None and source.missing == (found.missing,)
        assert not is_known(SourceRequest("k", ptx=PTX))

    def test_ptx_of_other_kernels_does_not(self) -> None:
        assert find(SourceRequest("kk", ptx=PTX)).file is None

    def test_a_program_without_anything(self, tmp_path: Path) -> None:
        found = find(SourceRequest("k", mapped_from=str(tmp_path / "app")))
        assert found.missing == (
            "the image of app has no line tables and no source of that name was found: "
            "compile with nvcc -lineinfo, or give --source-dir"
        )


def test_a_manifest_does_not_say_whose_home_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    main = two_headers(tmp_path / "project")
    found = find(SourceRequest(*NAMES, cubin=tables(main, [("impl.h", 2)], (1, 3))))
    source = found.store(lambda name, data: schema.StoredFile(path=f"source/{name}", size=0, sha256="0" * 64))
    assert source is not None and source.build is not None and found.notes
    assert source.build.name == "~/project/main.cu"
    assert source.origins[0].original_file == "~/project/x/impl.h"
    assert str(tmp_path) not in f"{source} {found.notes}"


class TestBounds:
    def test_too_many_headers_are_cut_with_a_note(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(unit, "MAX_FILES", 3)
        includes = "".join(f'#include "h{n}.h"\n' for n in range(6))
        (tmp_path / "k.cu").write_text(includes + 'extern "C" __global__ void k() { }\n')
        for n in range(6):
            (tmp_path / f"h{n}.h").write_text("")
        found = find(SourceRequest("k", source_dirs=(tmp_path,)))
        assert len(found.files) == 3
        assert any("not every header was stored" in note for note in found.notes)

    def test_a_toolkits_headers_are_named_not_stored(self, tmp_path: Path) -> None:
        toolkit = tmp_path / "cuda" / "include"
        (toolkit / "crt").mkdir(parents=True)
        (toolkit / "crt" / "host_defines.h").write_text("")
        (toolkit / "cuda_fp16.h").write_text("#include <other.h>\n")
        (tmp_path / "app").mkdir()
        (tmp_path / "app" / "k.cu").write_text('#include <cuda_fp16.h>\nextern "C" __global__ void k() { }\n')
        entry = {"directory": str(tmp_path / "app"), "file": "k.cu",
                 "arguments": ["nvcc", "-I", str(toolkit), "-c", "k.cu"]}  # fmt: skip
        (tmp_path / "app" / "compile_commands.json").write_text(json.dumps([entry]))
        found = find(SourceRequest("k", source_dirs=(tmp_path / "app",)))
        assert [file.path for file in found.files] == ["k.cu"]
        assert found.build is not None and found.build.external == ("cuda_fp16.h",)
        assert [folder.stored for folder in found.build.include_dirs] == [None]

    def test_a_special_file_is_no_source(self, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "k.cu")
        assert find(SourceRequest("k", source_dirs=(tmp_path,))).file is None
