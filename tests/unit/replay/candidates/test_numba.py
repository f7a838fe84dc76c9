"""Numba's kernels are rebuilt by Numba: by the one that KERNCAP_TEST_NUMBA names or that is here, and the
conversation with it by a stand-in that has as much of its interface."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from kerncap.api.edit.application_files import patch_of
from kerncap.api.edit.working_copy import WorkingCopy, unit_of
from kerncap.capture import images, languages
from kerncap.capture.languages import SourceRequest
from kerncap.errors import BackendUnavailable, UsageError
from kerncap.format import Reproducer
from kerncap.replay import candidates
from kerncap.replay.candidates import BuildError, tools
from tests.unit.replay.candidates.conftest import Make, here, rebuilt
from tests.unit.source.numba.test_numba import HERE, NAMES
from tests.unit.source.numba_mlir import test_numba_mlir as numba_mlir

STAND_IN = {
    "__init__.py": "from . import cuda, types\nfrom .types import float32\n",
    "types.py": "class Array(tuple):\n"
    "    def __new__(cls, *given, **more): return super().__new__(cls, (*given, *more.items()))\n"
    "def Tuple(items): return ('tuple', *items)\n"
    "float32, float64, int32, boolean, complex64 = 'f4', 'f8', 'i4', 'b1', 'c8'\n",
    "cuda/__init__.py": """
import inspect, sys
class Kernel:
    def __init__(self, f, options): self.py_func, self.targetoptions = f, options
def jit(f=None, **options): return (lambda f: Kernel(f, options)) if f is None else Kernel(f, options)
class TypingError(Exception):
    pass
def compile(f, types, **options):
    said = repr((types, dispatcher.get_current_device().compute_capability, options))
    if "undeclared" in f.__code__.co_names:
        raise TypingError("NameError: name 'undeclared' is not defined\\nlong explanation")
    print("compiling", f.__name__)
    return f"// {said}\\n.version 8.0\\n.visible .entry _ZN1m{f.__name__}B2v9E()\\n{{\\n}}\\n\\0", None
from . import dispatcher
""",
    "cuda/dispatcher.py": "",
}


@pytest.fixture
def axpy(make: Make) -> Reproducer:
    return make(languages.find(SourceRequest(NAMES["axpy"], cwd=HERE, arch="sm_90")), NAMES["axpy"])


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in STAND_IN.items():
        path = tmp_path / "packages" / "numba" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
    monkeypatch.setattr(
        tools,
        "python_compiler",
        lambda language, python=None: tools.Tool("numba", Path(sys.executable), "0.0"),
    )


def built(reproducer: Reproducer, folder: Path, old: str = "", new: str = "") -> str:
    return rebuilt(reproducer, folder, old, new, variable="KERNCAP_TEST_NUMBA").decode()


@pytest.mark.usefixtures("stand_in")
class TestConversation:
    def test_the_kernel_gets_its_captured_name_and_types(self, axpy: Reproducer, tmp_path: Path) -> None:
        ptx = built(axpy, tmp_path, "@cuda.jit\n", "@cuda.jit(fastmath=True, cache=True)\n")
        assert f".entry {NAMES['axpy']}()" in ptx and "_ZN1m" not in ptx
        row = "('f4', 1, 'C', ('readonly', False), ('aligned', True))"
        assert ptx.startswith(f"// (('f4', {row}, {row}), (9, 0), {{")
        assert "'cc': (9, 0)" in ptx and "'fastmath': True" in ptx and "'device': False" in ptx
        assert "cache" not in ptx

    def test_an_error_has_its_words_and_line(self, axpy: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match="TypingError: NameError: name 'undeclared'") as raised:
            built(axpy, tmp_path, "y[i] += a", "y[i] += undeclared")
        assert "long explanation" in raised.value.detail
        with pytest.raises(BuildError, match="SyntaxError") as raised:
            built(axpy, tmp_path, "y[i] += a", "y[i] += = a")
        assert candidates.first_place(raised.value.detail).line == 17

    def test_another_kernel_in_its_place_is_named(self, axpy: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match="has no attribute 'axpy'"):
            built(axpy, tmp_path, "def axpy", "def other")

    def test_a_module_that_ends_the_process_is_a_failed_build(self, axpy: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match="ended with no answer"):
            built(axpy, tmp_path, "SCALE = 3.0", "import os; os._exit(3)")

    @pytest.mark.parametrize("line", ["open({0!r}).read()", "open({1!r}, 'w')"])
    def test_a_strangers_module_is_confined(self, axpy: Reproducer, tmp_path: Path, line: str) -> None:
        results, outside = tmp_path / "regions" / "0", tmp_path / "outside"
        results.parent.mkdir()
        results.write_text("the result")
        file = tmp_path / "own" / "kernel.py"
        file.parent.mkdir()
        hidden = (results.parent, axpy.path)

        def build() -> candidates.Built:
            return candidates.compile_candidate(axpy, file, "sm_90", file.parent, None, hidden)

        text = axpy.source_text()
        assert text is not None
        file.write_text(text)
        assert NAMES["axpy"] in build().path.read_text()
        file.write_text(f"{text}\n{line.format(str(results), str(outside))}\n")
        with pytest.raises(BuildError, match="Permission denied"):
            build()
        assert not outside.exists()


@pytest.mark.timeout(300)
def test_numba_cuda_mlir_makes_a_cubin(make: Make, tmp_path: Path) -> None:
    python = os.environ.get("KERNCAP_TEST_NUMBA_MLIR")
    here(tools.python_compiler("numba-cuda-mlir", python))
    stack = ((str(numba_mlir.HERE / "kernels.py"), 20, "<module>"),)
    source = languages.find(SourceRequest(numba_mlir.NAME, python_stack=stack, arch="sm_90"))
    reproducer = make(source, numba_mlir.NAME)
    text = reproducer.source_text()
    assert text is not None
    file = tmp_path / "kernel.py"
    file.write_text(text)
    data = candidates.build(reproducer, file, "sm_90", tmp_path, python).read_bytes()
    assert len(images.Cubin(data).layout(numba_mlir.NAME) or ()) == 11
    file.write_text(text.replace("a * amplified", "undeclared * amplified"))
    with pytest.raises(BuildError, match="undeclared"):
        candidates.build(reproducer, file, "sm_90", tmp_path, python)


def test_without_numba_the_reason_names_it(
    axpy: Reproducer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tools, "python_compiler", lambda language, python=None: "no Python here has Numba")
    with pytest.raises(BackendUnavailable, match="no Python here has Numba"):
        built(axpy, tmp_path)
    with pytest.raises(UsageError, match=r"one of \.ptx, \.py"):
        candidates.build(axpy, tmp_path / "k.cu", "sm_90", tmp_path)


def test_the_patch_is_of_the_file_that_the_kernel_was_cut_out_of(axpy: Reproducer, tmp_path: Path) -> None:
    copy = WorkingCopy.open(axpy, unit_of(axpy), tmp_path / "copy")
    assert [path.name for path in copy.watched] == ["kernel.py"]
    copy.file.write_text(copy.file.read_text().replace("y[i] += a", "y[i] -= a").replace("3.0", "4.0"))
    patch = patch_of(axpy, copy)
    assert set(patch.files) == {str(HERE / "kernels.py")} and not patch.unmapped
    assert "-SCALE = 3.0\n+SCALE = 4.0\n" in patch.text
    assert "+        y[i] -= a * tile[cuda.threadIdx.x]\n" in patch.text


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kernel", ["axpy", "roots"])
def test_numba_itself_makes_the_captured_ptx_again(kernel: str, make: Make, tmp_path: Path) -> None:
    here(tools.python_compiler("numba", os.environ.get("KERNCAP_TEST_NUMBA")))
    source = languages.find(SourceRequest(NAMES[kernel], cwd=HERE, arch="sm_90"))
    reproducer = make(source, NAMES[kernel])
    assert f".entry {NAMES[kernel]}(" in built(reproducer, tmp_path)
    with pytest.raises(BuildError, match="No implementation of function") as raised:
        built(reproducer, tmp_path, "i = cuda.grid(1)", "i = cuda.grid(1) + 'x'")
    text = reproducer.source_text()
    assert text is not None
    first = text.rindex("@staticmethod" if kernel == "roots" else "@cuda.jit\n")
    # Numba's own line where it has one, else the kernel's.
    decorator = 1 + text[:first].count("\n")
    wrong = 1 + text[: text.index("i = cuda.grid(1)")].count("\n")
    assert candidates.first_place(raised.value.detail).line in (decorator, wrong)
