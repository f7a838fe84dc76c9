"""`%load_ext kerncap`: the cells of docs/howto/notebook.md in a real IPython, and an interrupted command."""

from __future__ import annotations

import os
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kerncap import notebook

PAGE = Path(__file__).parents[3] / "docs" / "howto" / "notebook.md"
shells = pytest.importorskip("IPython.core.interactiveshell")


@pytest.fixture
def shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[shells.InteractiveShell]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    hook = sys.displayhook
    yield shells.InteractiveShell()
    sys.displayhook = hook


def test_a_cell_is_the_program(shell: shells.InteractiveShell, capfd: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%load_ext kerncap").raise_error()
    (Path.cwd() / "beside.py").write_text("word = 'beside'")
    captured = shell.run_cell("%%kerncap capture\nfrom beside import word\nprint(word)\n")
    assert captured.result == []
    assert "beside" in capfd.readouterr().out.splitlines()
    assert list(Path.cwd().glob(".kerncap-*")) == []


def test_a_reproducer_is_shown() -> None:
    golden = Path(__file__).parents[2] / "golden" / "v1.15"
    [found] = notebook.Reproducers([notebook.Reproducer(str(golden))])
    shown = found._repr_html_()
    assert "<summary>v1.15</summary>" in shown
    assert "\nkernel  " in shown
    assert str(found) == str(golden)


@pytest.mark.long
def test_the_cells_of_the_page(shell: shells.InteractiveShell, capfd: pytest.CaptureFixture[str]) -> None:
    load, program, *later = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    shell.run_cell(load).raise_error()
    captured = shell.run_cell(program, store_history=True)
    captured.raise_error()
    [reproducer] = captured.result
    assert "\n9900.0\n" in f"\n{capfd.readouterr().out}"
    assert "scale (triton)" in captured.result._repr_html_()
    assert list(Path.cwd().glob(".kerncap-*")) == []

    verify, report = (shell.run_cell(cell, store_history=True) for cell in later)
    verify.raise_error()
    assert "Result: PASS" in capfd.readouterr().out
    assert shell.user_ns["_exit_code"] == 0
    assert reproducer.path.name in report.result.text
    assert report.result._repr_html_().startswith('<iframe sandbox="allow-scripts"')


def test_what_is_wrong_is_one_line(shell: shells.InteractiveShell, capfd: pytest.CaptureFixture[str]) -> None:
    shell.run_cell("%load_ext kerncap").raise_error()
    shell.run_cell("%%kerncap capture -- python run.py\npass\n")
    shell.run_cell("%kerncap inspect 'a b\n")
    shell.run_cell("%kerncap inspect nothing.zip")
    lines = capfd.readouterr().out.splitlines()
    assert [line.partition(": ")[2].partition(":")[0] for line in lines] == [
        "%%kerncap", "No closing quotation", "nothing.zip",
    ]  # fmt: skip
    assert shell.user_ns["_exit_code"] == 2
    assert "&lt;b&gt;.zip: " in notebook.Reproducer("<b>.zip")._repr_html_()
    with pytest.raises(RuntimeError, match=r"nothing\.zip: "):
        notebook.Reproducer("nothing.zip").report()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """As in a notebook's kernel: what a shell starts in the background ignores SIGINT, its children too."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_ends_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    class Interrupted:
        text, pid = "", 0

        def write(self, text: str) -> None:
            self.text += text
            line = re.search(r"^(\d+)\n", self.text, re.MULTILINE)  # with others before it, if it is late
            if line and not self.pid:
                self.pid = int(line[1])
                raise KeyboardInterrupt

        def flush(self) -> None: ...

    monkeypatch.setattr(sys, "stdout", stream := Interrupted())
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
    with pytest.raises(KeyboardInterrupt):
        notebook.run(["capture", "--", sys.executable, "-c", program])
    with pytest.raises(ProcessLookupError):
        os.kill(stream.pid, 0)
