"""Kernels of Python compilers that kerncap can't run: where their function is."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from kerncap.api.edit.working_copy import unit_of
from kerncap.capture import languages
from kerncap.capture.kernel_spellings import short_name
from kerncap.capture.languages import FoundSource, SourceRequest
from kerncap.errors import UsageError
from kerncap.format import Reproducer, ReproducerWriter
from tests.unit.format import small

PROGRAM = """\
import functools
import jax
from jax.experimental import pallas as pl


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def scale_kernel(x_ref, o_ref, *, by):
    o_ref[...] = x_ref[...] * by


def helper_kernel(x):
    return x


def add(x, y):
    return pl.pallas_call(add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype))(x, y)


def scale(x):
    body = functools.partial(scale_kernel, by=2)
    return pl.pallas_call(body, out_shape=x)(helper_kernel(x))


@pl.kernel(out_shape=None, mesh=None)
def copy(x_ref, o_ref):
    o_ref[...] = x_ref[...]


def negate_body(x_ref, o_ref):
    o_ref[...] = -x_ref[...]


def negate(x):
    negated = functools.partial(negate_body)
    return pl.pallas_call(negated, out_shape=x, name="negation")(x)
"""


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(PROGRAM)
    return path


def asked(app: Path, name: str, **more: object) -> FoundSource:
    frames = (("/x/site-packages/jax/_src/api.py", 3, "call"), (str(app), 30, "<module>"))
    return languages.find(SourceRequest(name, **{"python_stack": frames, **more}))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "function", "line"),
    [
        ("add_kernel", "add_kernel", 6),
        ("scale_kernel", "scale_kernel", 10),
        ("copy_mosaic_gpu_kernel", "copy", 28),
        ("mosaic_gpu_add_kernel_kernel", "add_kernel", 6),
        ("negation", "negate_body", 32),
        ("negation_mosaic_gpu_kernel", "negate_body", 32),
    ],
)
def test_a_kernel_of_pallas_is_the_function_of_its_name(
    app: Path, name: str, function: str, line: int
) -> None:
    found = asked(app, name)
    assert (found.language, found.entry, found.kernel_line) == ("python-dsl", function, line)
    assert found.files[0].data == PROGRAM.encode() and found.kernel_file == str(app)


@pytest.mark.parametrize(
    ("name", "more"),
    [
        ("negate_body", {}),  # it is called otherwise
        ("helper_kernel", {}),  # not what Pallas was given
        ("loop_add_fusion", {}),  # XLA's own
        ("add_kernel", {"mapped_from": "/app/lib.so"}),  # a C++ kernel of that name
        ("add_kernel", {"python_stack": ()}),
    ],
)
def test_others_stay_without_a_source(app: Path, name: str, more: dict[str, object]) -> None:
    assert asked(app, name, **more).file is None


def test_of_two_functions_none_is_taken(app: Path) -> None:
    app.write_text(PROGRAM + "\n\ndef other():\n    def add_kernel(x):\n        pass\n")
    assert asked(app, "add_kernel").file is None


def test_pallas_own_kernels_are_in_its_package(app: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site-packages" / "jax" / "experimental" / "pallas" / "ops" / "gpu"
    folder.mkdir(parents=True)
    (folder / "softmax.py").write_text(PROGRAM)
    app.write_text("import jax\n")
    frames = ((str(tmp_path / "site-packages" / "jax" / "_src" / "api.py"), 3, "call"), (str(app), 1, "f"))
    assert asked(app, "add_kernel", python_stack=frames).kernel_file == str(folder / "softmax.py")


def test_names_are_the_functions() -> None:
    assert short_name("copy_mosaic_gpu_kernel", "copy_mosaic_gpu_kernel") == "copy"
    assert short_name("mosaic_gpu_add_kernel", "") == "add"
    assert short_name("mosaic_gpu", "") == "mosaic_gpu"


def ptx(app: Path, *lines: int) -> str:
    locations = "".join(f"\t.loc 1 {line} 0\n\tret;\n" for line in lines)
    return f'.version 8.0\n.target sm_90\n.file 1 "{app}"\n.visible .entry k()\n{{\n{locations}}}\n'


@pytest.mark.parametrize(("lines", "function"), [((7,), "add_kernel"), ((15, 11), "scale_kernel")])
def test_line_tables_of_python_files_name_the_function(
    app: Path, lines: tuple[int, ...], function: str
) -> None:
    found = languages.find(SourceRequest("k", ptx=ptx(app, *lines)))
    if len(lines) == 1:
        assert (found.language, found.entry) == ("python-dsl", function)
    else:  # the one of the kernel's own name comes before a helper's
        renamed = ptx(app, *lines).replace("k()", "scale_kernel()")
        assert languages.find(SourceRequest("scale_kernel", ptx=renamed)).entry == function


def test_lines_outside_of_all_functions_name_none(app: Path) -> None:
    found = languages.find(SourceRequest("k", ptx=ptx(app, 1)))
    assert (found.language, found.file) == ("ptx", "kernel.ptx")


def test_it_is_only_for_reading(app: Path, tmp_path: Path) -> None:
    found = asked(app, "add_kernel")
    with ReproducerWriter(tmp_path, "add_kernel") as writer:
        source = found.store(writer.add_source)
        made = small.manifest(writer.finish_memory(), [])
        folder = writer.seal(msgspec.structs.replace(made, source=source))
    with Reproducer.open(folder) as reproducer, pytest.raises(UsageError, match="only for reading"):
        unit_of(reproducer)
