"""Which editor, and where it runs."""

from __future__ import annotations

import pytest

from kerncap.api.edit import editor
from kerncap.errors import UsageError


@pytest.mark.parametrize(
    ("environment", "words", "place"),
    [
        ({"VISUAL": "code --wait", "EDITOR": "vi"}, ("code", "--wait"), "window"),
        ({"EDITOR": "vim -u 'my rc'"}, ("vim", "-u", "my rc"), "terminal"),
        ({"EDITOR": "/opt/bin/subl"}, ("/opt/bin/subl",), "window"),
        ({"EDITOR": "emacs", "DISPLAY": ":0"}, ("emacs",), "window"),
        ({"EDITOR": "emacs -nw", "DISPLAY": ":0"}, ("emacs", "-nw"), "terminal"),
        ({"EDITOR": "emacs"}, ("emacs",), "terminal"),
        ({"EDITOR": "something-new"}, ("something-new",), "terminal"),
    ],
)
def test_the_users_choice(environment: dict[str, str], words: tuple[str, ...], place: str) -> None:
    assert editor.chosen(environment) == editor.Editor(words, place)


def test_in_tmux_it_gets_a_pane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor.child, "find", lambda name: f"/usr/bin/{name}")
    assert editor.chosen({"EDITOR": "vim", "TMUX": "/tmp/tmux,1,0"}).place == "tmux"
    assert editor.chosen({"EDITOR": "code", "TMUX": "/tmp/tmux,1,0"}).place == "window"


def test_no_editor_at_all_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor.child, "find", lambda name: None)
    with pytest.raises(UsageError, match="--watch"):
        editor.chosen({})
    with pytest.raises(UsageError, match="EDITOR"):
        editor.chosen({"EDITOR": "vim 'open"})
