"""cuTile's kernels are rebuilt by cuTile: by the one that KERNCAP_TEST_CUTILE names or that is here, and the
conversation with it by a stand-in that has as much of its interface."""

from __future__ import annotations

import functools
import os
import sys
from pathlib import Path

import pytest

from kerncap.api.edit.application_files import patch_of
from kerncap.api.edit.working_copy import WorkingCopy, unit_of
from kerncap.capture import images, languages
from kerncap.capture.languages import SourceRequest
from kerncap.errors import UsageError
from kerncap.format import Reproducer
from kerncap.replay import candidates
from kerncap.replay.candidates import BuildError, tools
from tests.unit.replay.candidates.conftest import Make, here, rebuilt
from tests.unit.source.cutile.test_cutile import CUBINS, HERE, NAMES

STAND_IN = {
    "__init__.py": """
Constant = {int: int}
def kernel(f=None, **options): return (lambda f: (f, options)) if f is None else (f, options)
""",
    "compilation.py": """
import os
def demangle_kernel_name(name): return "scaled_add", name
def export_kernel(kernel, signatures, out, *, gpu_code, output_format):
    function, options = kernel
    print("compiling for", gpu_code, options)
    if "undeclared" in function.__code__.co_names:
        error = TypeError("name 'undeclared' is not defined")
        error.loc = type("Loc", (), {"filename": function.__code__.co_filename, "line": 13})
        raise error
    name = "flagged.cubin" if options else "scaled_add.cubin"
    with open(out, "wb") as file, open(os.path.join(os.environ["RECORDED"], name), "rb") as made:
        file.write(made.read())
""",
}


@pytest.fixture
def scaled_add(make: Make) -> Reproducer:
    return made_of(make, "scaled_add")


def made_of(make: Make, kernel: str) -> Reproducer:
    request = SourceRequest(NAMES[kernel], cwd=HERE, argv=("python", "kernels.py"), arch="sm_90")
    return make(languages.find(request), NAMES[kernel])


built = functools.partial(rebuilt, variable="KERNCAP_TEST_CUTILE")


class TestConversation:
    @pytest.fixture(autouse=True)
    def stand_in(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = tmp_path / "packages" / "cuda" / "tile"
        folder.mkdir(parents=True)
        for name, text in STAND_IN.items():
            (folder / name).write_text(text)
        monkeypatch.setenv("PYTHONPATH", str(tmp_path / "packages"))
        monkeypatch.setenv("RECORDED", str(HERE))
        here = tools.Tool("cutile", Path(sys.executable), "0.0")
        monkeypatch.setattr(tools, "python_compiler", lambda language, python=None: here)

    def test_the_cubin_has_the_captured_kernel(self, scaled_add: Reproducer, tmp_path: Path) -> None:
        assert built(scaled_add, tmp_path) == CUBINS["scaled_add"]

    def test_another_kernel_is_named(self, scaled_add: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match="has no kernel scaled_add"):
            built(scaled_add, tmp_path, "@ct.kernel\n", "@ct.kernel(occupancy=2)\n")

    def test_an_error_has_its_words_and_line(self, scaled_add: Reproducer, tmp_path: Path) -> None:
        with pytest.raises(BuildError, match="TypeError: name 'undeclared'") as raised:
            built(scaled_add, tmp_path, "amplified(a) *", "undeclared(a) *")
        assert candidates.first_place(raised.value.detail).line == 13


def test_a_file_of_another_language_is_refused(scaled_add: Reproducer, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"one of \.ptx, \.py"):
        candidates.build(scaled_add, tmp_path / "k.cu", "sm_90", tmp_path)


def test_the_patch_is_of_the_file_that_the_kernel_was_cut_out_of(
    scaled_add: Reproducer, tmp_path: Path
) -> None:
    copy = WorkingCopy.open(scaled_add, unit_of(scaled_add), tmp_path / "copy")
    assert [path.name for path in copy.watched] == ["kernel.py"]
    copy.file.write_text(copy.file.read_text().replace("* alpha", "/ alpha").replace("3.0", "4.0"))
    patch = patch_of(scaled_add, copy)
    assert set(patch.files) == {str(HERE / "kernels.py")} and not patch.unmapped
    assert "-GAIN = 3.0\n+GAIN = 4.0\n" in patch.text


@pytest.mark.timeout(300)
@pytest.mark.parametrize("kernel", ["scaled_add", "flagged"])
def test_cutile_itself_makes_the_captured_kernel_again(kernel: str, make: Make, tmp_path: Path) -> None:
    here(tools.python_compiler("cutile", os.environ.get("KERNCAP_TEST_CUTILE")))
    reproducer = made_of(make, kernel)
    again = images.Cubin(built(reproducer, tmp_path))
    assert again.layout(NAMES[kernel]) == images.Cubin(CUBINS[kernel]).layout(NAMES[kernel])
    with pytest.raises(BuildError, match="undeclared") as raised:
        built(reproducer, tmp_path, "i = ct.bid(0)", "i = undeclared(0)")
    text = reproducer.source_text()
    assert text is not None
    wrong = 1 + text[: text.index("i = ct.bid(0)")].count("\n")
    assert candidates.first_place(raised.value.detail).line == wrong
