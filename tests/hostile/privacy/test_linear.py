"""The search takes work in proportion to the text, whatever the text is: counted, not timed."""

from __future__ import annotations

import pytest

from kerncap.format.private import contexts, pieces, secret_patterns
from kerncap.format.private.pieces import secrets_of
from tests.counted_work import calls_of

TEXTS = [
    b"eyJ-",
    b"eyJ.eyJ-",
    b"token",
    b"key=aaaa;",
    b"password",
    b"passwordpassword=",
    b"--pass ",
    b"bearer a1",
    b"sessauth",
    b"machine a login b password c1\n",
    b"://a:",
    b"://",
    b"@://x",
    b"a-",
    b"/home/",
    b"sk-",
    b"ghp_",
    b"xoxb-1-",
    b"AKIA",
    b"-----BEGIN PRIVATE KEY-----\n",
    b"-----END X-----",
    b"BEGIN PRIVATE KEY",
    b"0123456789",
    b'"password": "',
    b'\\\\\\"',
    b"Authorization: ",
    b"PuTTY-User-Key-File-2",
    b"X" * 4096 + b"=",
    b"\n",
    b"-us1",
]


@pytest.mark.parametrize("unit", TEXTS, ids=range(len(TEXTS)))
def test_four_times_the_text_is_four_times_the_calls(unit: bytes) -> None:
    secrets_of(unit * 10)  # what is imported and compiled once
    size = 16_384 // len(unit) + 1
    small, large = (calls_of(lambda text=unit * size * n: secrets_of(text)) for n in (1, 4))
    assert large <= 5 * small + 500


@pytest.mark.long
@pytest.mark.parametrize("unit", TEXTS, ids=range(len(TEXTS)))
def test_what_is_given_to_a_pattern_is_bounded(unit: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pattern of a library sees steps of a few KiB, each byte in two of them at the most."""
    seen: list[int] = []
    find = secret_patterns.Pattern._find

    def watched(self: secret_patterns.Pattern, data: bytes, text: str, begin: int, end: int) -> object:
        seen.append(end - begin)
        return find(self, data, text, begin, end)

    monkeypatch.setattr(secret_patterns.Pattern, "_find", watched)
    text = unit * (65_536 // len(unit) + 1)
    secrets_of(text)
    assert max(seen, default=0) <= 4096
    assert sum(seen) <= len(secret_patterns.patterns()) * (len(text) + 2 * pieces.PIECE)


def test_no_name_of_a_pattern_is_without_its_stem() -> None:
    """The pass over a file looks for the first three letters of each stem: none is missing there."""
    assert all(len(stem) >= 3 for stem in contexts.STEMS)
    for stem in contexts.STEMS:
        assert contexts._NAME.match(stem + b"=x"), stem
    assert all(len(one) >= 3 for pattern in secret_patterns.patterns() for one in pattern.triggers or ())


@pytest.mark.parametrize("before", range(pieces.PIECE - 80, pieces.PIECE + 8, 11))
@pytest.mark.parametrize(
    "secret",
    [
        b"0123456789abcdef0123456789abcdef-us12",
        b"123456789:AAq7Rk2vXb9LmZ4tHsW8nYc3PdJ6gTf1UeK",
        b"password=swordfish",
    ],
    ids=("mailchimp", "telegram", "name"),
)
def test_a_secret_across_two_pieces_is_found(before: int, secret: bytes) -> None:
    text = b"\n" * before + secret + b"\n"
    [(start, stop, _)] = secrets_of(text)
    assert text[start:stop] in (secret, b"swordfish")
