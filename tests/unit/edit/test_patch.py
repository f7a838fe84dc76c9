"""Edits of an editable module become a patch that `git apply` and `patch -p1` take."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kerncap.api.edit.patch import lines_of, map_back, unified
from kerncap.errors import UsageError
from kerncap.format.schema import SourceOrigin

FILE = "/srv/app/ops.py"
ORIGINAL = """\
import torch
import triton
import triton.language as tl

SCALE = tl.constexpr(2.0)


@triton.jit
def half(x):
    return x * 0.5


class Ops:
    @triton.jit
    def kernel(x_ptr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        x = tl.load(x_ptr + i)

        tl.store(x_ptr + i, half(x))


def main():
    pass
"""
MODULE = """\
# kernel: /srv/app/ops.py:14
# Edit it.
import triton
import triton.language as tl

WIDTH = 4


# /srv/app/ops.py:8
@triton.jit
def half(x):
    return x * 0.5


# /srv/app/ops.py:14
@triton.jit
def kernel(x_ptr, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + i)

    tl.store(x_ptr + i, half(x))
"""
ORIGINS = (
    SourceOrigin(name="half", line=11, lines=2, original_file=FILE, original_line=9),
    SourceOrigin(name="kernel", line=17, lines=5, original_file=FILE, original_line=15),
)


def mapped(edited: str) -> tuple[str, list[str]]:
    edits = map_back(MODULE, edited, ORIGINS, {FILE: ORIGINAL})
    return edits.applied({FILE: ORIGINAL}).get(FILE, ORIGINAL), [str(each) for each in edits.unmapped]


def test_the_origins_of_this_test_are_true() -> None:
    for origin in ORIGINS:
        for n in range(origin.lines):
            there = ORIGINAL.split("\n")[origin.original_line - 1 + n]
            assert there.strip() == MODULE.split("\n")[origin.line - 1 + n].strip()


def test_nothing_edited_is_nothing_to_patch() -> None:
    assert mapped(MODULE) == (ORIGINAL, [])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("x * 0.5", "x / 2", "x / 2"),
        ("    x = tl.load(x_ptr + i)\n", "    x = tl.load(x_ptr + i)\n    y = x\n\n", "        y = x\n\n"),
        ("    x = tl.load(x_ptr + i)\n\n", "", "BLOCK)\n        tl.store"),
        ("@triton.jit\ndef half", "@triton.jit(noinline=1)\ndef half", "@triton.jit(noinline=1)\ndef half"),
        ("half(x))\n", "half(x))\n    x = 1\n", "half(x))\n        x = 1\n\n\ndef main"),
        ("import triton\n", "import math\nimport triton\n", "import math\nimport triton\n"),
        (
            "# /srv/app/ops.py:8\n",
            "@triton.jit\ndef third(x):\n    return x / 3\n\n\n# /srv/app/ops.py:8\n",
            "@triton.jit\ndef third(x):\n    return x / 3\n\n\n@triton.jit\ndef half",
        ),
    ],
)  # fmt: skip
def test_edits_go_back_to_their_lines(before: str, after: str, expected: str) -> None:
    assert before in MODULE
    text, unmapped = mapped(MODULE.replace(before, after))
    assert unmapped == [] and expected in text
    for line in ("import torch", "SCALE = tl.constexpr(2.0)", "class Ops:", "def main():"):
        assert line in text.split("\n")


def test_what_the_application_does_not_have_is_named() -> None:
    text, unmapped = mapped(MODULE.replace("WIDTH = 4", "WIDTH = 8").replace("x * 0.5", "x / 2"))
    assert "x / 2" in text, "the rest is mapped all the same"
    [why] = unmapped
    assert why.startswith("line 6:") and "WIDTH = 4" in why


def test_a_line_that_was_changed_for_the_module_is_named() -> None:
    """A name that two modules used: the application's line is another than the module's."""
    original = ORIGINAL.replace("half(x))", "ops_half(x))")
    edits = map_back(MODULE, MODULE.replace("half(x))", "half(x) + 1)"), ORIGINS, {FILE: original})
    assert not edits.replaced and "half(x))" in str(edits.unmapped[0])


def test_line_ends_and_a_missing_last_one_stay() -> None:
    original = ORIGINAL.replace("\n", "\r\n").rstrip("\r\n")
    edits = map_back(MODULE, MODULE.replace("x * 0.5", "x / 2"), ORIGINS, {FILE: original})
    text = edits.applied({FILE: original})[FILE]
    assert text == original.replace("x * 0.5", "x / 2")


@pytest.mark.parametrize("tool", [["git", "apply"], ["patch", "-p1", "-s", "-i"]])
@pytest.mark.parametrize("name", ["ops.py", "sub dir/my ops.py"])
@pytest.mark.parametrize("end", ["\n", ""])
def test_patches_are_taken(tmp_path: Path, tool: list[str], name: str, end: str) -> None:
    """With a space in the name, and without an end of the last line."""
    path = tmp_path / "app" / name
    path.parent.mkdir(parents=True)
    (tmp_path / "app" / ".git").mkdir()
    original = ORIGINAL.rstrip("\n") + end
    path.write_text(original)
    origins = [
        SourceOrigin(
            name=o.name, line=o.line, lines=o.lines, original_file=str(path), original_line=o.original_line
        )
        for o in ORIGINS
    ]
    edited = MODULE.replace("x * 0.5", "x / 2").replace("half(x))\n", "half(x))\n    x = 1\n")
    edits = map_back(MODULE, edited, origins, {str(path): original})
    changed = edits.applied({str(path): original})
    changed[str(path)] = changed[str(path)].replace("    pass", "    return")
    patch = unified({str(path): original}, changed)
    assert patch.root == tmp_path / "app" and patch.files == (str(path),)
    (tmp_path / "x.patch").write_text(patch.text)
    (tmp_path / "app" / ".git").rmdir()
    done = subprocess.run([*tool, str(tmp_path / "x.patch")], cwd=patch.root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + patch.text
    assert path.read_text() == changed[str(path)]


def test_a_name_that_no_patch_can_hold_is_refused() -> None:
    with pytest.raises(UsageError, match="can't name"):
        unified({"/a\nb": "x\n"}, {"/a\nb": "y\n"})
    with pytest.raises(UsageError, match="can't name"):
        unified({"../../etc/passwd": "x\n"}, {"../../etc/passwd": "y\n"})


@given(
    st.lists(st.sampled_from(["", "a", "b", "    c", "x * 0.5", "\x0c", "# n"]), max_size=12),
    st.integers(0, 30),
)
def test_whatever_is_inserted_arrives_or_is_named(lines: list[str], at: int) -> None:
    """No edit is lost without a word, and no line of the application goes by itself."""
    module = lines_of(MODULE)
    at = min(at, len(module))
    edited = "".join([*module[:at], *(line + "\n" for line in lines), *module[at:]])
    text, unmapped = mapped(edited)
    there = [line.strip() for line in text.split("\n")]
    assert all(line.strip() in there for line in ORIGINAL.split("\n"))
    if not unmapped:
        assert len(lines_of(text)) == len(lines_of(ORIGINAL)) + len(lines)
