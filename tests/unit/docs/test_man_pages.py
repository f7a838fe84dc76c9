"""`make man`: every command has a page, with every option, in which groff finds nothing wrong."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from kerncap.cli import COMMANDS, group
from tests.unit.test_project import ROOT


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("man")
    subprocess.run([sys.executable, ROOT / "tools" / "man_pages.py", folder], cwd=ROOT, check=True)
    return folder


def test_every_option_of_every_command(pages: Path) -> None:
    assert {file.name for file in pages.iterdir()} == {
        "kerncap.1",
        *(f"kerncap-{name}.1" for name in COMMANDS),
    }
    context = click.Context(group)
    for name in COMMANDS:
        text = (pages / f"kerncap-{name}.1").read_text().replace("\\-", "-")
        command = group.get_command(context, name)
        assert command is not None
        for option in command.params:
            if isinstance(option, click.Option) and not option.hidden:
                assert option.opts[0] in text, (name, option.opts)


@pytest.mark.skipif(shutil.which("groff") is None, reason="groff is missing")
def test_groff_takes_them(pages: Path) -> None:
    done = subprocess.run(
        ["groff", "-man", "-Tutf8", "-ww", "-z", *pages.iterdir()], capture_output=True, text=True, check=True
    )
    assert not done.stderr
