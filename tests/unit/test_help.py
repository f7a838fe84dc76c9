"""What `--help` of each command says to someone who sees it for the first time."""

from __future__ import annotations

import re

import pytest
from click.testing import CliRunner

from kerncap.cli import COMMANDS, group, main


def help_of(name: str) -> str:
    result = CliRunner().invoke(group, [name, "--help"], terminal_width=200, max_content_width=200)
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("name", COMMANDS)
def test_no_value_has_the_name_of_a_python_type(name: str) -> None:
    assert not re.search(r"\b(?:INTEGER|FLOAT|TEXT|REPRODUCER)\b", help_of(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_limits_that_only_keep_numbers_sane_are_left_out(name: str) -> None:
    assert "<=x<=" not in help_of(name)


def test_they_are_named_in_an_error() -> None:
    result = CliRunner().invoke(group, ["replay", "-n", "-1", "folder"])
    assert result.exit_code == 2 and "0<=x<=1000000000" in result.output


def test_a_command_that_is_misspelt_is_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["captur", "--", "python"]) == 2
    assert capsys.readouterr().err == (
        "kerncap: No such command 'captur', did you mean 'capture'; see kerncap --help\n"
    )
    assert main(["optimise-task", "folder"]) == 2
    assert "did you mean 'report --task'" in capsys.readouterr().err
    assert main(["zzz"]) == 2
    assert capsys.readouterr().err == "kerncap: No such command 'zzz'; see kerncap --help\n"
