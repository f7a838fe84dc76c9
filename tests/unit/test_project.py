"""The project as a whole: what the wheel holds, what starting costs, what the pages promise."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import kerncap
from kerncap.cli import COMMANDS, group

ROOT = Path(__file__).resolve().parents[2]
PLACES = {
    "kerncap": "kerncap",
    "replay": "kerncap/replay",
    "sanitizer": "kerncap/sanitizer",
    "shims/triton": "kerncap/shims/triton",
}
HEAVY = {"torch", "triton", "numpy", "cuda", "msgspec", "zstandard", "blake3"}


def listed(*patterns: str) -> list[str]:
    """The files of the tree that git tracks or would track."""
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns]
    return sorted(set(subprocess.check_output(command, cwd=ROOT, text=True).split()))


def build_wheel(folder: Path, **variables: str) -> zipfile.ZipFile:
    """A wheel, built with what is installed: no network."""
    pytest.importorskip("scikit_build_core")
    run = subprocess.run(
        [sys.executable, "-c", f"import scikit_build_core.build as b; b.build_wheel({str(folder)!r})"],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert run.returncode == 0, run.stdout[-4000:]
    (path,) = folder.glob("kerncap-*.whl")
    return zipfile.ZipFile(path)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The one without native shims."""
    return build_wheel(tmp_path_factory.mktemp("wheel"), KERNCAP_NO_SHIM="1")


@pytest.fixture(scope="module")
def native_wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """The one with them; compiles what changed since the last time."""
    for program in ("c++", "cmake"):
        if shutil.which(program) is None and not (Path(sys.executable).parent / program).exists():
            pytest.skip(f"no {program}")
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", "")))
    return build_wheel(tmp_path_factory.mktemp("native"), PATH=path)


# --- the wheel -------------------------------------------------------------------------------------


def test_wheel_has_every_module_in_its_place(wheel: zipfile.ZipFile) -> None:
    names = set(wheel.namelist())
    for tree, place in PLACES.items():
        for path in (ROOT / tree).rglob("*.py"):
            assert f"{place}/{path.relative_to(ROOT / tree)}" in names
    assert "kerncap/format/FORMAT.md" in names
    assert "kerncap/format/schema.py" in names


def test_wheel_has_nothing_else(wheel: zipfile.ZipFile) -> None:
    tops = {name.split("/")[0] for name in wheel.namelist()}
    assert tops == {"kerncap", f"kerncap-{kerncap.__version__}.dist-info"}
    assert not [n for n in wheel.namelist() if n.endswith(".pyc") or "__pycache__" in n or "/tests/" in n]


def test_wheel_is_one_for_every_python(wheel: zipfile.ZipFile) -> None:
    assert wheel.filename is not None
    assert Path(wheel.filename).name == f"kerncap-{kerncap.__version__}-py3-none-any.whl"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_wheel_with_shims_has_a_shared_object_for_each(
    wheel: zipfile.ZipFile, native_wheel: zipfile.ZipFile
) -> None:
    assert native_wheel.filename is not None
    assert re.search(r"-py3-none-linux_\w+\.whl$", native_wheel.filename)
    only = set(native_wheel.namelist()) ^ set(wheel.namelist())
    assert only == {"kerncap/shims/cuda/libkerncap_cuda.so", "kerncap/shims/hip/libkerncap_hip.so"}


@pytest.mark.long
@pytest.mark.timeout(900)
def test_shims_need_an_old_glibc_and_nothing_else(native_wheel: zipfile.ZipFile) -> None:
    pytest.importorskip("elftools")
    command = [sys.executable, "tools/check_glibc.py", str(native_wheel.filename)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    ("code", "options", "found"),
    [
        ("int f(void) { return 0; }", [], None),
        ("int f(void) { return 0; }", ["-Wl,--no-as-needed", "-lstdc++"], "needs libstdc++.so.6"),
        ('void g(void); __asm__(".symver g,g@GLIBC_2.99"); void f(void) { g(); }', [], "needs GLIBC_2.99"),
    ],
)
def test_the_check_of_glibc_finds_what_is_not_promised(
    tmp_path: Path, code: str, options: list[str], found: str | None
) -> None:
    pytest.importorskip("elftools")
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("no gcc")
    (tmp_path / "libc.c").write_text("void g(void) {}")
    (tmp_path / "map").write_text("GLIBC_2.99 { global: g; };")
    version = ["-shared", "-fPIC", f"-Wl,--version-script={tmp_path / 'map'}", "-Wl,-soname,libc.so.6"]
    subprocess.run([compiler, *version, "-o", tmp_path / "libnewer.so", tmp_path / "libc.c"], check=True)
    (tmp_path / "f.c").write_text(code)
    shared = tmp_path / "libf.so"
    link = [
        compiler,
        "-shared",
        "-fPIC",
        "-o",
        shared,
        tmp_path / "f.c",
        f"-L{tmp_path}",
        "-lnewer",
        *options,
    ]
    subprocess.run(link, check=True)
    run = subprocess.run(
        [sys.executable, "tools/check_glibc.py", shared], cwd=ROOT, capture_output=True, text=True
    )
    assert (run.returncode, found is None) in ((0, True), (1, False)), run.stdout + run.stderr
    assert found is None or found in run.stdout


def test_wheel_pins_neither_torch_nor_triton(wheel: zipfile.ZipFile) -> None:
    metadata = wheel.read(f"kerncap-{kerncap.__version__}.dist-info/METADATA").decode()
    required = re.findall(r"^Requires-Dist: (.+)$", metadata, re.MULTILINE)
    gpu = [line for line in required if re.match(r"(torch|triton)\b", line)]
    assert all("extra == 'demo'" in line.replace('"', "'") and "==" not in line.split(";")[0] for line in gpu)
    assert "License-Expression: Apache-2.0" in metadata


def test_version_is_written_once() -> None:
    own = re.compile(rf"(?<![\w.]){re.escape(kerncap.__version__)}(?![\w.])")
    files = [
        n for n in listed("*.py", "*.toml", "Makefile", "*.sh") if not n.startswith(("tests/", "samples/"))
    ]
    places = [
        name
        for name in files
        if any(own.search(line) and "version" in line for line in (ROOT / name).read_text().splitlines())
    ]
    assert places == ["kerncap/__init__.py"]


# --- starting --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], *([name, "--help"] for name in COMMANDS)])
def test_help_loads_no_gpu_package(arguments: list[str], tmp_path: Path) -> None:
    code = (
        "import json, sys\nfrom kerncap.cli import main\n"
        "status = main(sys.argv[1:])\n"
        "print(json.dumps([status, sorted({m.split('.')[0] for m in sys.modules})]), file=sys.stderr)\n"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    status, loaded = json.loads(run.stderr.strip().splitlines()[-1])
    # The group's own pages load nothing at all; a command may load the format, never a GPU package.
    unwanted = HEAVY if arguments[0].startswith("-") else {"torch", "triton", "cuda"}
    assert status == 0
    assert not unwanted & set(loaded)


def test_every_command_has_a_help() -> None:
    assert group.list_commands(None) == list(COMMANDS)  # type: ignore[arg-type]
    for name in COMMANDS:
        found = group.get_command(None, name)  # type: ignore[arg-type]
        assert found is not None and found.help, name


# --- the pages -------------------------------------------------------------------------------------


def pages() -> list[Path]:
    return [ROOT / name for name in listed("*.md")]


def written(page: Path, program: str) -> list[tuple[str, str]]:
    """First word and rest of each ``program …`` in the page's code, inline or in a block."""
    text = page.read_text()
    blocks = re.findall(r"^```[^`\n]*\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ").split("  #")[0] for block in blocks for line in block.splitlines()]
    lines += re.findall(r"`([^`\n]+)`", prose)
    found = (re.match(rf"{program} ([a-z][a-z-]*)(.*)", line) for line in lines)
    return [(match[1], match[2]) for match in found if match]


def test_every_command_in_the_pages_exists() -> None:
    wrong = [
        f"{page.relative_to(ROOT)}: kerncap {name}"
        for page in pages()
        for name, _ in written(page, "kerncap")
        if name not in COMMANDS
    ]
    assert wrong == []


def test_the_readme_names_every_command() -> None:
    assert set(COMMANDS) <= {name for name, _ in written(ROOT / "README.md", "kerncap")}


def test_the_readme_is_short() -> None:
    assert len((ROOT / "README.md").read_bytes()) <= 8 * 1024


def test_every_option_in_the_pages_exists() -> None:
    """Up to the target's own command line, which follows ``--``."""
    wrong = []
    for page in pages():
        for name, rest in written(page, "kerncap"):
            command = group.get_command(None, name)  # type: ignore[arg-type]
            assert command is not None
            known = {option for parameter in command.params for option in parameter.opts} | {"--help"}
            own = re.split(r"\s--(?:\s|$)", rest)[0]
            used = re.findall(r"(?<![\w-])--?[a-z][a-z-]*", own)
            wrong += [f"{page.relative_to(ROOT)}: kerncap {name} {o}" for o in used if o not in known]
    assert wrong == []


def test_every_make_target_in_the_pages_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = {name for page in pages() for name, _ in written(page, "make")}
    assert named and named <= targets


def test_every_link_between_the_pages_leads_somewhere() -> None:
    for page in pages():
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)} links to {target}"


def test_every_promise_names_the_tests_that_hold_it() -> None:
    """And each hostile test holds a promise."""
    text = (ROOT / "SECURITY.md").read_text()
    tables = re.findall(r"^\| promise \|.*\n\|[-|]*\n((?:\|.*\n)+)", text, re.MULTILINE)
    rows = [row.rsplit("|", 2) for table in tables for row in table.splitlines()]
    assert len(rows) > 10
    named = {f"tests/hostile/{name}" for _, tests, _ in rows for name in re.findall(r"`([\w/.]+)`", tests)}
    assert [promise for promise, tests, _ in rows if "`" not in tests] == []
    assert named == set(listed("tests/hostile/**/test_*.py"))


def defined_tests() -> set[tuple[str, str]]:
    """File name and function of each test."""
    return {
        (Path(name).name, function)
        for name in listed("tests/**/test_*.py")
        if (ROOT / name).exists()
        for function in re.findall(r"^ *def (test_\w+)", (ROOT / name).read_text(), re.MULTILINE)
    }


def named_tests(text: str) -> set[tuple[str, str]]:
    return set(re.findall(r"`(test_\w+\.py)::(test_\w+)`", text))


def test_every_test_that_the_support_page_names_exists() -> None:
    named, defined = named_tests((ROOT / "docs" / "support.md").read_text()), defined_tests()
    assert named - defined == set()
    cases = {each for each in defined if each[1].startswith("test_case_")}
    assert cases and cases <= named, "a numbered case has its row"


def test_every_statement_about_verdicts_names_the_tests_that_hold_it() -> None:
    lines = (ROOT / "docs" / "verdicts.md").read_text().splitlines()
    rows = [line for line in lines if line.startswith("|")]
    statements = [row for row in rows if not re.match(r"\|(?:[-|]+|.*\| test \|)$", row)]
    assert len(statements) > 40
    defined = defined_tests()
    for row in statements:
        named = named_tests(row.rsplit("|", 2)[1])
        assert named and named <= defined, row
    prose = [line for line in lines if line and line not in rows and not line.startswith("#")]
    assert prose == ["Each statement on this page names the tests that hold it."]


def test_make_help_documents_every_target() -> None:
    phony = set(re.findall(r"^\.PHONY: ([a-z-]+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = subprocess.check_output(["make", "--no-print-directory", "help"], cwd=ROOT, text=True)
    assert {line.split()[1] for line in shown.splitlines()} == phony
