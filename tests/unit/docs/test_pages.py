"""The reader of pages: what is a command, what is compared, what differs."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.integration.docs.pages import Reproducers, blocks, commands, given, unmarked
from tests.integration.docs.shown_output import differs, normal
from tests.unit.test_project import ROOT

PAGE = """\
Text.
<!-- given: softmax, layer_norm -->

```console
$ kerncap verify kerncap-out/softmax_kernel-5c583801
Result: PASS (58,368 bytes identical)
$ cat > a.py <<'END'
> x = 1
END
$ echo one \\
  two
```

```{.console not-run="needs an NVIDIA GPU"}
$ kerncap tune kerncap-out/softmax_kernel-5c583801
```

```
kerncap list -- ./app
```

```python
import kerncap
```
"""


def test_commands_with_what_is_shown() -> None:
    first, second, third = commands(PAGE)
    assert first.text == "kerncap verify kerncap-out/softmax_kernel-5c583801" and first.line == 5
    assert first.shown == ("Result: PASS (58,368 bytes identical)",) and not first.may_fail
    assert second.text == "cat > a.py <<'END'\nx = 1\nEND" and third.text == "echo one \\\n  two"


def test_blocks_that_are_not_run() -> None:
    assert [block.not_run for block in blocks(PAGE)] == [None, "needs an NVIDIA GPU", None, None]
    [open_one] = unmarked(PAGE)
    assert open_one.lines == ("kerncap list -- ./app",)
    assert given(PAGE) == ("softmax", "layer_norm")


def test_output_before_a_command_is_a_mistake_of_the_page() -> None:
    with pytest.raises(ValueError, match="no command before 'text'"):
        commands("```console\ntext\n$ true\n```\n")


def test_numbers_hashes_and_times_may_differ() -> None:
    assert normal("captured k-5c583801 in 215 ms,  max 1.49e-08") == "captured k-# in # unit, max #"
    assert normal("f32 x2 z_ptr") == "f32 x2 z_ptr", "a digit inside of a word is part of it"
    assert differs(("took 3 s, 12 rows",), ["took 830 us, 7 rows"]) is None


@pytest.mark.parametrize(
    ("shown", "printed", "wrong"),
    [
        (("a", "b"), ["a", "c"], "shown: 'b'"),
        (("a", "b"), ["a"], "nothing more"),
        (("a",), ["a", "b"], "printed and not shown: 'b'"),
        (("a", "…", "d"), ["a", "b", "c"], "shown: 'd'"),
        (("Result: PASS",), ["Result: FAIL"], "shown: 'Result: PASS'"),
    ],
)
def test_what_differs_is_found(shown: tuple[str, ...], printed: list[str], wrong: str) -> None:
    assert wrong in (differs(shown, printed) or "")


@pytest.mark.parametrize("shown", [(), ("{",), ("{", "}")])
def test_the_last_line_is_the_last(shown: tuple[str, ...]) -> None:
    assert differs((*shown, "…", "}"), ["{", "}", "}"]) is None


@pytest.mark.parametrize(
    "shown",
    [(), ("a", "…"), ("…", "c"), ("a", "…", "c"), ("a", "b", "c"), ("a", "b", "c", ""), ("a…", "b", "…")],
)
def test_what_is_the_same(shown: tuple[str, ...]) -> None:
    assert differs(shown, ["a", "b", "c"]) is None


def test_what_times_order_may_come_in_either_order() -> None:
    [one] = commands(
        '```{.console either-first="fast|slow, by f|by s"}\n$ list\n1 fast 3 s\n2 slow 2 s\nby f\n```\n'
    )
    assert one.exchanged == ("1 slow 3 s", "2 fast 2 s", "by s")
    assert differs(one.exchanged, ["1 slow 9 s", "2 fast 1 s", "by s"]) is None
    assert differs(one.exchanged, ["1 slow 9 s", "2 fast 1 s", "by f"]), "all of it is exchanged, or nothing"
    assert differs(one.shown, ["1 slow 9 s", "2 slow 1 s", "by f"])


def test_hashes_of_the_page_become_those_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "out" / "add-11111111").mkdir(parents=True)
    known = Reproducers()
    assert known.translate("kerncap verify out/add-aaaaaaaa", tmp_path) == "kerncap verify out/add-11111111"
    (tmp_path / "out" / "add-00000000").mkdir()
    assert (
        known.translate("out/add-aaaaaaaa out/add-bbbbbbbb", tmp_path) == "out/add-11111111 out/add-00000000"
    )
    assert known.translate("out/mul-cccccccc", tmp_path) == "out/mul-cccccccc"
    (tmp_path / "small" / "add-22222222").mkdir(parents=True)
    assert known.translate("small/add-dddddddd", tmp_path) == "small/add-22222222"
    (tmp_path / "received" / "add-11111111").mkdir(parents=True)
    assert known.translate("received/add-eeeeeeee", tmp_path) == "received/add-11111111", "a second copy"


def test_the_picture_shows_the_commands_of_the_readme() -> None:
    text = re.sub(r"<[^>]*>", "", (ROOT / "docs/terminal.svg").read_text())
    picture = html.unescape(text).replace("\xa0", " ")
    section = (ROOT / "README.md").read_text().split("## 60 seconds")[1].split("\n## ")[0]
    commands = re.findall(r"^\$ kerncap (\w+ .+)$", section, re.MULTILINE)
    assert len(commands) == 3
    for command in commands:
        words = re.escape(command).replace("5c583801", "[0-9a-f]{8}")
        assert re.search(words, picture), command
    assert "Result: PASS" in picture and "Result: FAIL" in picture
