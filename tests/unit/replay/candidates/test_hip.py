"""HIP candidates: compiled by this machine's hipcc at the paths that the application's build had."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import msgspec
import pytest

from kerncap.capture import languages
from kerncap.capture.images import offload_bundle
from kerncap.capture.source.native import line_table
from kerncap.errors import BackendUnavailable
from kerncap.format import Reproducer, schema
from kerncap.format.code_object import CodeObject
from kerncap.replay.candidates import BuildError, compile_candidate, first_place, tools
from kerncap.replay.candidates.compilers import run_tool
from kerncap.replay.worker.protocol import Place
from tests.parameters import first_of
from tests.unit.replay.candidates.conftest import Make, here

ARCH = "gfx90a"
KERNEL, DEMANGLED = "_Z5applyIfEvPT_i", "void apply<float>(float*, int)"
UNIT = """\
#include <hip/hip_runtime.h>
#include "one/gain.h"
#include "two/gain.h"
template <class T> __global__ void apply(T *x, int n) {
    int i = threadIdx.x;
    if (i < n) x[i] = x[i] * GAIN + offset(i) + EXTRA;
}
extern "C" __global__ void plain(int *x) { x[threadIdx.x] = 1; }
int main() { hipLaunchKernelGGL(apply<float>, dim3(1), dim3(64), 0, 0, nullptr, 0); }
"""


@pytest.fixture
def hipcc() -> tools.Tool:
    return here(tools.hipcc())


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where each test has its project: line tables have the path, so what was compiled there serves all."""
    return tmp_path_factory.mktemp("hip") / "project"


@pytest.fixture
def project(place: Path) -> Iterator[Path]:
    """Two headers of one base name, and a build for two architectures."""
    folder = place
    for name, text in {
        "src/apply.hip": UNIT,
        "src/one/gain.h": "#define GAIN 2.0f\n",
        "src/two/gain.h": '#include "deep.h"\n__device__ inline float offset(int i) { return i + DEEP; }\n',
        "src/two/deep.h": "#define DEEP 1\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    command = (
        "hipcc --offload-arch=gfx90a --offload-arch=gfx906 -g -O3 -DEXTRA=1.0f -Wall -c src/apply.hip -o a.o"
    )
    entry = {"directory": str(folder), "file": "src/apply.hip", "command": command}
    (folder / "compile_commands.json").write_text(json.dumps([entry]))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def reproducer(project: Path, make: Make, hipcc: tools.Tool) -> Reproducer:
    return make(sought(project, compiled(project, hipcc)), KERNEL, DEMANGLED)


def compiled(project: Path, hipcc: tools.Tool) -> bytes:
    """The unit's code object, as the application's own build makes it."""
    sources = sorted((path, path.read_bytes()) for path in (project / "src").rglob("*") if path.is_file())
    return _compiled(project, hipcc, tuple(sources))


@cache
def _compiled(project: Path, hipcc: tools.Tool, _sources: tuple[tuple[Path, bytes], ...]) -> bytes:
    out = project / "bundle"
    words = ["--genco", "--offload-arch=gfx90a", "-g", "-O3", "-DEXTRA=1.0f", "src/apply.hip", "-o", str(out)]
    done = run_tool([str(hipcc.path), *words], project, "hipcc", environment={"HIP_PLATFORM": "amd"})
    assert done.returncode == 0, done.stderr
    found = offload_bundle.code_object(out.read_bytes(), ARCH)
    assert found is not None
    return found[0]


def sought(
    project: Path, code: bytes, kernel: str = KERNEL, demangled: str = DEMANGLED
) -> languages.FoundSource:
    request = languages.SourceRequest(
        kernel, demangled, hsaco=code, arch=ARCH, mapped_from=str(project / "app"), cwd=project
    )
    assert languages.is_known(request)
    return languages.find(request)


def edited(reproducer: Reproducer, folder: Path, name: str, old: str, new: str) -> Path:
    """All of the unit's files as they lie, one of them changed; gives that one."""
    shutil.copytree(reproducer.path / "source", folder)
    text = (folder / name).read_text()
    assert text.count(old) == 1
    (folder / name).write_text(text.replace(old, new))
    return folder / name


def text_of(data: bytes) -> bytes:
    """The machine code alone."""
    from kerncap.format.elf import Elf

    elf = Elf(data)
    section = elf.section(".text")
    assert section is not None
    return bytes(elf.content(section))


# --- the recipe ------------------------------------------------------------------------------------


def test_the_recipe_is_that_of_the_build(reproducer: Reproducer, project: Path) -> None:
    source = reproducer.manifest.source
    assert source is not None and source.build is not None
    build = source.build
    assert (source.language, source.file.path, source.entry) == ("hip", "source/apply.hip", "apply")
    assert (build.tool, build.arch, build.name) == ("hipcc", ARCH, str(project / "src/apply.hip"))
    assert build.options == ("-g", "-O3", "-DEXTRA=1.0f", "-Wall")
    assert build.headers == {
        str(project / "src/one/gain.h"): "source/one/gain.h",
        str(project / "src/two/gain.h"): "source/two/gain.h",
        str(project / "src/two/deep.h"): "source/two/deep.h",
    }
    assert build.external == ("hip/hip_runtime.h",)
    assert build.compiler is not None and build.compiler.startswith("clang ")


def test_the_lines_of_a_header_find_the_unit(project: Path, hipcc: tools.Tool) -> None:
    unit = project / "src/apply.hip"
    kernel = UNIT[UNIT.index("template") : UNIT.index("extern")]
    (project / "src/kernel.h").write_text("#pragma once\n" + kernel)
    unit.write_text(UNIT.replace(kernel, '#include "kernel.h"\n'))
    found = sought(project, compiled(project, hipcc))
    assert (found.file, found.kernel_line) == ("kernel.h", 2)
    assert found.build is not None and found.build.unit == "source/apply.hip"


# --- builds ----------------------------------------------------------------------------------------


def test_the_unedited_source_is_the_captured_code(
    reproducer: Reproducer, project: Path, hipcc: tools.Tool, tmp_path: Path
) -> None:
    original = compiled(project, hipcc)
    built = compile_candidate(reproducer, reproducer.path / "source/apply.hip", ARCH, tmp_path)
    data = built.path.read_bytes()
    assert built.path.suffix == ".hsaco" and built.edited == ()
    assert CodeObject(data).arch == ARCH
    assert text_of(data) == text_of(original)
    again = compile_candidate(reproducer, reproducer.path / "source/apply.hip", ARCH, tmp_path)
    assert again.cached and again.path.read_bytes() == data


def test_a_confined_one_reads_the_application_and_nothing_of_others(
    reproducer: Reproducer, tmp_path: Path
) -> None:
    secret = tmp_path / "hidden" / "secret.h"
    secret.parent.mkdir()
    secret.write_text("#define SECRET 1")
    hidden = (secret.parent, reproducer.path)
    candidate = edited(reproducer, tmp_path / "mine", "apply.hip", "+ EXTRA", "- EXTRA")
    built = compile_candidate(reproducer, candidate, ARCH, tmp_path, hidden=hidden)
    assert CodeObject(built.path.read_bytes()).kernel(KERNEL) is not None and not built.cached
    candidate.write_text(f'#include "{secret}"\n{candidate.read_text()}')
    with pytest.raises(BuildError, match="secret.h"):
        compile_candidate(reproducer, candidate, ARCH, tmp_path, hidden=hidden)


@first_of(
    ("name", "old", "new"),
    [
        ("apply.hip", "+ EXTRA", "- EXTRA"),
        ("one/gain.h", "2.0f", "3.0f"),
        ("two/gain.h", "i + DEEP", "i - DEEP"),
        ("two/deep.h", "DEEP 1", "DEEP 7"),
    ],
)
def test_an_edit_of_any_file_changes_the_code(
    reproducer: Reproducer, project: Path, tmp_path: Path, name: str, old: str, new: str
) -> None:
    plain = compile_candidate(reproducer, reproducer.path / "source/apply.hip", ARCH, tmp_path)
    before = text_of(plain.path.read_bytes())
    candidate = edited(reproducer, tmp_path / "mine", name, old, new)
    shutil.rmtree(project)  # the application's own files are not needed
    built = compile_candidate(reproducer, candidate, ARCH, tmp_path)
    assert built.edited == (f"source/{name}",)
    assert text_of(built.path.read_bytes()) != before


@pytest.mark.long
def test_line_tables_keep_the_original_paths(reproducer: Reproducer, project: Path, tmp_path: Path) -> None:
    candidate = edited(reproducer, tmp_path / "mine", "one/gain.h", "2.0f", "3.0f")
    shutil.rmtree(project)
    built = compile_candidate(reproducer, candidate, ARCH, tmp_path)
    table = line_table.from_code(built.path.read_bytes(), KERNEL)
    assert table is not None
    assert (str(project / "src/apply.hip"), 6) in table.rows
    assert str(project / "src/two/gain.h") in table.files


@pytest.mark.long
def test_an_edit_that_the_compiler_does_not_read_is_no_candidate(
    project: Path, make: Make, hipcc: tools.Tool, tmp_path: Path
) -> None:
    """The header that the unit includes is this machine's, at another path than the application's."""

    def elsewhere(source: schema.Source) -> schema.Source:
        build = source.build
        assert build is not None
        headers = {path.replace("/one/", "/not_here/"): stored for path, stored in build.headers.items()}
        return msgspec.structs.replace(source, build=msgspec.structs.replace(build, headers=headers))

    found = sought(project, compiled(project, hipcc))
    reproducer = make(found, KERNEL, DEMANGLED, change=elsewhere)
    candidate = edited(reproducer, tmp_path / "mine", "one/gain.h", "2.0f", "3.0f")
    with pytest.raises(BuildError, match="source/one/gain.h: the compiler did not read the edited file"):
        compile_candidate(reproducer, candidate, ARCH, tmp_path)


@first_of("gone", [True, False])
def test_an_error_stands_at_the_line_of_the_edited_file(
    reproducer: Reproducer, project: Path, tmp_path: Path, gone: bool
) -> None:
    candidate = edited(reproducer, tmp_path / "mine", "two/gain.h", "i + DEEP", "j + DEEP")
    if gone:
        shutil.rmtree(project)
    with pytest.raises(BuildError, match="undeclared identifier 'j'") as raised:
        compile_candidate(reproducer, candidate, ARCH, tmp_path)
    assert first_place(raised.value.detail) == Place("source/two/gain.h", 2, 48)


@pytest.mark.long
def test_a_template_that_is_used_no_more_is_instantiated(reproducer: Reproducer, tmp_path: Path) -> None:
    use = "hipLaunchKernelGGL(apply<float>, dim3(1), dim3(64), 0, 0, nullptr, 0);"
    candidate = edited(reproducer, tmp_path / "mine", "apply.hip", use, "")
    built = compile_candidate(reproducer, candidate, ARCH, tmp_path)
    assert CodeObject(built.path.read_bytes()).kernel(KERNEL) is not None


@pytest.mark.long
def test_another_name_is_said(reproducer: Reproducer, tmp_path: Path) -> None:
    candidate = edited(reproducer, tmp_path / "mine", "apply.hip", "(T *x, int n)", "(T *x, long n)")
    with pytest.raises(BuildError, match="parameters, template arguments or namespaces differ"):
        compile_candidate(reproducer, candidate, ARCH, tmp_path)


@pytest.mark.long
def test_other_parameters_of_a_c_function_are_said(
    project: Path, make: Make, hipcc: tools.Tool, tmp_path: Path
) -> None:
    found = sought(project, compiled(project, hipcc), "plain", "plain")
    reproducer = make(found, "plain")
    parameters = schema.Parameters(bytes="00" * 8, layout=((0, 8),))
    launch = msgspec.structs.replace(reproducer.manifest.launch, parameters=parameters)
    reproducer.manifest = msgspec.structs.replace(reproducer.manifest, launch=launch)
    same = compile_candidate(reproducer, reproducer.path / "source/apply.hip", ARCH, tmp_path)
    assert CodeObject(same.path.read_bytes()).kernel("plain") is not None
    candidate = edited(reproducer, tmp_path / "mine", "apply.hip", "plain(int *x)", "plain(int *x, int n)")
    with pytest.raises(BuildError, match="8, 4 bytes, captured were 8"):
        compile_candidate(reproducer, candidate, ARCH, tmp_path)


PLAIN = 'extern "C" __global__ void plain(int *x) { *x = elsewhere(*x); }\n'


def in_two_units(project: Path, make: Make, hipcc: tools.Tool, text: str) -> Reproducer:
    """A launch of ``plain``: its image is linked with what ``text`` has for EXTRA, and its unit has not."""
    (project / "src/apply.hip").write_text(f"#include <hip/hip_runtime.h>\n{text}")
    linked = compiled(project, hipcc)
    database = json.loads((project / "compile_commands.json").read_text())
    database[0]["command"] = database[0]["command"].replace("-DEXTRA=1.0f", "-fgpu-rdc")
    (project / "compile_commands.json").write_text(json.dumps(database))
    return make(sought(project, linked, "plain", "plain"), "plain")


def test_a_header_that_was_not_found_is_no_mistake_of_a_candidate(
    project: Path, make: Make, hipcc: tools.Tool, tmp_path: Path
) -> None:
    header = '#ifdef EXTRA\n__device__ int elsewhere(int x) { return x; }\n#else\n#include "gone.h"\n#endif\n'
    reproducer = in_two_units(project, make, hipcc, header + PLAIN)
    candidate = edited(reproducer, tmp_path / "edited", "apply.hip", "elsewhere(*x)", "elsewhere(*x) + 1")
    said = "the capture found no gone.h; capture it with a compile_commands.json"
    with pytest.raises(BackendUnavailable, match=said):
        compile_candidate(reproducer, candidate, ARCH, tmp_path)
    candidate.write_text(f'#include "nowhere.h"\n{candidate.read_text()}')
    with pytest.raises(BuildError, match="nowhere.h"):
        compile_candidate(reproducer, candidate, ARCH, tmp_path)


ELSEWHERE = """
__device__ int elsewhere(int);
__device__ __attribute__((noinline)) int through(int x) { return elsewhere(x) + 1; }
__device__ __attribute__((noinline)) int own(int x) { return x * 3; }
__device__ int (*table[2])(int) = {own, through};
#ifdef EXTRA
__device__ int elsewhere(int x) { return x; }
#endif
extern "C" __global__ void other(int *x) { *x = through(*x); }
extern "C" __global__ void plain(int *x) { *x = own(*x); }
"""


def test_only_what_the_kernel_leads_to_has_to_be_defined(
    project: Path, make: Make, hipcc: tools.Tool, tmp_path: Path
) -> None:
    reproducer = in_two_units(project, make, hipcc, ELSEWHERE)
    for name, new in (("unedited", "own(*x)"), ("right", "2 + own(*x) - 2")):
        candidate = edited(reproducer, tmp_path / name, "apply.hip", "*x = own(*x)", f"*x = {new}")
        built = compile_candidate(reproducer, candidate, ARCH, tmp_path)
        assert CodeObject(built.path.read_bytes()).kernel("plain") is not None
    for name, new in (("newly", "elsewhere(*x)"), ("behind", "through(*x)"), ("stored", "table[*x & 1](*x)")):
        candidate = edited(reproducer, tmp_path / name, "apply.hip", "*x = own(*x)", f"*x = {new}")
        with pytest.raises(BackendUnavailable, match="plain needs elsewhere, which its unit does not define"):
            compile_candidate(reproducer, candidate, ARCH, tmp_path)


def test_a_compiler_that_is_too_old_is_named(reproducer: Reproducer, tmp_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="does not compile for gfx9999: name one that does in HIPCC"):
        compile_candidate(reproducer, reproducer.path / "source/apply.hip", "gfx9999", tmp_path)


def test_a_compiler_that_is_not_there_is_said(
    reproducer: Reproducer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HIPCC", str(tmp_path / "none"))
    with pytest.raises(BackendUnavailable, match="HIPCC names .*none, which is not there"):
        compile_candidate(reproducer, reproducer.path / "source/apply.hip", ARCH, tmp_path)


@pytest.mark.parametrize(
    "option", ["-fplugin=x.so", "-Xclang=-load", "-mllvm=-load=x.so", "-o/tmp/x", "-B/tmp"]
)
def test_what_no_recipe_may_hold_is_refused(
    project: Path, make: Make, hipcc: tools.Tool, tmp_path: Path, option: str
) -> None:
    def worse(source: schema.Source) -> schema.Source:
        build = source.build
        assert build is not None
        return msgspec.structs.replace(source, build=msgspec.structs.replace(build, options=(option,)))

    reproducer = make(sought(project, compiled(project, hipcc)), KERNEL, DEMANGLED, change=worse)
    with pytest.raises(BuildError, match="is not allowed"):
        compile_candidate(reproducer, reproducer.path / "source/apply.hip", ARCH, tmp_path)
