"""What the quick look at a file leaves out holds nothing: with every piece searched, the same is found."""

from __future__ import annotations

import random

import numpy as np
import pytest

from kerncap.format.private import candidates, pieces
from kerncap.format.private.secret_words import grade
from tests.hostile.privacy.planted import SECRETS

NAMES = (
    "key KEY Keys token auth sig signature session cookies pass dsn login cookie api_key api.key ?key &sig "
    "#auth --key -p --pin --otp MY_PIN password db-password authorization Proxy-Authorization Cookie "
    "token_ids prompt_token keyboard hf_token "
    "client_secret sessauth PYTORCH_PASS TRITON_PAT Bearer Basic webhook jwt " + "x" * 40 + "key"
).split()
SIGNS = [
    "=", ":", " = ", ": ", ",", ", ", "==", ":=", " => ", '": "', "': b'", '", "', '=\\"', '="', '=b"', " ",
    "  ", ": str = ", '\\": \\"', '"]="', "    :    ", "\t=\t", "", "\n", "=)", "=(",
]  # fmt: skip
VALUES = [
    "aaaa", "swordfish", "hunter2", "a1B2c3D4e5F6", "abcdefghijkl=", "abcdefghijk=,rest", "abcd;efg1hij2",
    "ab&cd12345", "$TOKEN", "<token>", "None", "x", "", "q7Rk2vXb9LmZ4tHs", "Bearer q7Rk2vXb9LmZ4tHs",
    "svc:q7Rk2vXb9LmZ", "a" * 70 + "1b2c3", "a" * 70, "ab cd 12 34 ef", "correct horse battery", "12345678",
    "\u00e91234567", 'q7Rk2v\\"Xb9LmZ',
]  # fmt: skip
ENDS = ["", ";", "\n", '"', "'", '\\"', ",", ")", " ", "`", "\0", "\r\n", "&"]


def text_of(choose: random.Random, size: int) -> bytes:
    parts: list[str] = []
    length = 0
    while length < size:
        kind = choose.randrange(8)
        if kind == 0:
            part = choose.choice(SECRETS)[1]
        elif kind == 1:
            part = "".join(choose.choices("ab-_. \n=:/123", k=choose.randrange(1, 700)))
        elif kind == 2:
            part = choose.choice("abk1-=\n ") * choose.randrange(1, 600)
        else:
            part = "".join(map(choose.choice, (NAMES, SIGNS, VALUES, ENDS)))
        parts.append(part + choose.choice(["", " ", "\n", "-", "x", "."]))
        length += len(parts[-1])
    return "".join(parts).encode()


@pytest.mark.parametrize("block", [pytest.param(1024, id="many blocks"), pytest.param(1 << 20, id="one")])
@pytest.mark.parametrize("piece", [64, 512])
@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 40))])
def test_no_secret_is_lost(
    seed: int, piece: int, block: int, monkeypatch: pytest.MonkeyPatch
) -> None:  # fmt: skip
    choose = random.Random(seed)
    texts = [text_of(choose, choose.randrange(1, 6000)) for _ in range(60)]
    monkeypatch.setattr(candidates, "_BLOCK", block)
    monkeypatch.setattr(candidates, "PIECE", piece)
    monkeypatch.setattr(pieces, "PIECE", piece)
    quick = [pieces.secrets_of(text) for text in texts]
    monkeypatch.setattr(pieces, "kinds_of_pieces", every_piece)
    for text, found in zip(texts, quick, strict=True):
        whole = pieces.secrets_of(text)
        assert told(found) == told(whole), [
            text[max(0, one[0] - 60) : one[1]] for one in whole if one not in found
        ]
    assert sum(map(len, quick)) > 100


def told(found: list[pieces.Span]) -> list[tuple[int, int, str]]:
    """Where a web token ends depends on the step of the search that its second part begins in."""
    return [(start, 0 if what == "JSON Web Token" else stop, what) for start, stop, what in found]


def every_piece(data: bytes, *_: object) -> candidates.Bits:
    return np.full(-(-len(data) // candidates.PIECE), 0xFFFFFFFF, np.uint32)


def test_common_words_are_those_that_tell_nothing_by_themselves() -> None:
    for word in candidates._COMMON:
        assert grade(word.decode()) == "likely" and len(word) <= candidates._LONGEST_COMMON
