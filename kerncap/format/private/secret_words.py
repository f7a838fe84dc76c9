"""Whether a name says that its value is secret, and whether a value looks like one."""

from __future__ import annotations

import functools
import math
import re
from collections import Counter
from typing import Literal

Grade = Literal["certain", "likely"]
REDACTED = "REDACTED"

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CERTAIN = _words(
    "password passwd passphrase passcode pwd secret secrets credential credentials creds apikey apitoken "
    "accesskey secretkey privatekey authtoken accesstoken refreshtoken accountkey sharedaccesskey "
    "sharedaccesssignature webhook authorization bearer sessionid jwt"
)
_LIKELY = _words("token key auth sig signature session cookie cookies pass pw pat otp pin dsn login keys")
_KEYS = _words(
    "api access private secret account shared signing encryption master deploy license auth client service "
    "ssh storage app consumer subscription hmac"
)
_TOKENS = _words(
    "auth access refresh bearer api bot hub hf github gitlab gh git personal oauth id security session user "
    "deploy registry ci job npm pypi slack private service csrf xsrf wandb vault aws"
)
_TEXT_TOKENS = _words(
    "pad eos bos unk mask sep cls special max min num n new next prev image first last start end stop "
    "padding decoder prompt input output per"
)
# What a secret's name is only a part of: `--password-file`, `token_ids`, `secret_name`.
_TAILS = _words(
    "file path dir folder len length size name names id ids type count num index limit policy classification "
    "tokens izer embedding embeddings head heads"
)
_PLACEHOLDER = re.compile(
    r"[x*.]*|REDACTED.*|\$\{?\w*\}?|<[^<>]*>|\{\{?[^{}]*\}?\}|%\(\w+\)s|none|null|nil|true|false|undefined|str|bytes|bool|int",
    re.IGNORECASE,
)
_NO_PLACEHOLDER = frozenset("acdeghjklmopqvwyzACDEGHJKLMOPQVWYZ0123456789-+/=~")  # none begins so
_LEAST_BITS = 2.8  # of a character: words and repeated letters have less
_CODED_BITS = 3.5


@functools.lru_cache(maxsize=4096)
def grade(name: str) -> Grade | None:
    """How surely a variable, option, key or header of this name holds a secret.

    ``certain``: whatever its value is. ``likely``: if the value looks like one, or if the place has no
    other use of the word (an option, an environment variable).
    """
    words = [word.lower() for word in _WORD.findall(name[-96:])]
    while words and words[-1].isdigit():
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "id" and before == "key" and {"access", "private"} & set(words):
        return "certain"
    if last in _TAILS:
        return None
    if _CERTAIN & set(words):
        return "certain"
    if last in ("key", "keys") and before in _KEYS or last == "data" and before == "key":
        return "certain"
    if last == "token" and before in _TOKENS:
        return "certain"
    if last == "token" and before in _TEXT_TOKENS:
        return None
    return "likely" if last in _LIKELY else None


@functools.lru_cache(maxsize=4096)
def is_placeholder(value: str) -> bool:
    """Whether a value stands for another one, or for none: ``$TOKEN``, ``<token>``, ``xxxx``, ``None``."""
    value = value.strip("\"' ")
    return value[:1] not in _NO_PLACEHOLDER and _PLACEHOLDER.fullmatch(value) is not None


@functools.lru_cache(maxsize=4096)
def looks_random(value: str) -> bool:
    """Whether a value is no word: eight characters and more, digits among them, few that repeat."""
    if len(value) < 8 or is_placeholder(value):
        return False
    value = value[:256]
    counts = Counter(value).values()
    bits = -sum(n / len(value) * math.log2(n / len(value)) for n in counts)
    if any(c.isdigit() for c in value):
        return bits >= _LEAST_BITS
    # Without a digit only what base64 leaves at its end tells it from a name in camel case.
    return value.endswith("=") and len(value) >= 12 and bits >= _CODED_BITS
