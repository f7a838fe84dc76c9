"""Secrets of a known form: tokens as their issuers write them, private keys.

The patterns are those of detect-secrets, as far as one piece of text can be searched for them in bounded
time; a few that it lacks are here. Its searches by name, and all of its checks over the network, are unused.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

# Detectors of detect-secrets by module and class, and what a text must hold for one to find something, three
# letters at least. None: a long run of letters and digits will do. Left out: what goes by names (see
# kerncap.format.private.contexts), and what takes quadratic time and has a prefix below (OpenAI, npm).
_DETECTORS: dict[tuple[str, str], tuple[bytes, ...] | None] = {
    ("artifactory", "ArtifactoryDetector"): (b"AKC",),
    ("aws", "AWSKeyDetector"): (b"A3T", b"ABIA", b"ACCA", b"AKIA", b"ASIA"),
    ("azure_storage_key", "AzureStorageKeyDetector"): (b"AccountKey=",),
    ("discord", "DiscordBotTokenDetector"): None,
    ("github_token", "GitHubTokenDetector"): (b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_"),
    ("gitlab_token", "GitLabTokenDetector"): (
        b"glpat", b"gldt", b"glft", b"glsoat", b"glrt", b"GR1348941", b"glcbt", b"glimt", b"glptt",
        b"glagent", b"gloas",
    ),
    ("jwt", "JwtTokenDetector"): (b"eyJ",),
    ("mailchimp", "MailchimpDetector"): (b"-us",),
    ("pypi_token", "PypiTokenDetector"): (b"pypi-",),
    ("sendgrid", "SendGridDetector"): (b"SG.",),
    ("slack", "SlackDetector"): (b"xox", b"hooks.slack"),
    ("square_oauth", "SquareOAuthDetector"): (b"sq0csp",),
    ("stripe", "StripeDetector"): (b"k_live_",),
    ("telegram_token", "TelegramBotTokenDetector"): tuple(b"%02d:" % number for number in range(100)),
    ("twilio", "TwilioKeyDetector"): None,
}  # fmt: skip
# What detect-secrets 1.5 has no pattern for: three letters at least, before 16 letters and digits or more.
_PREFIXES = """
    hf_ github_pat_ sk- sk_test_ rk_test_ whsec_ npm_ npm-s- AIza ya29. dop_v1_ doo_v1_ shpat_ shpca_ shpss_
    xapp- dckr_pat_ dckr_oat_ ATATT3 lin_api_ figd_ nfp_ pul- r8_ gsk_ xai- nvapi- wandb_v1_ hvs. sntrys_ glc_
    glsa_ dapi pplx- fw_ tskey- ghv_ api_org_ LS0tLS1CRUdJTi r0_ key_live_ PMAK- EAAA GOCSPX- phc_ phx_ rpa_
    fo1_
"""
_LETTERS = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_TOKEN_LETTERS = bytes(_LETTERS) + b"-+/=~"
_TOKEN = frozenset(_TOKEN_LETTERS + b".%")
_BEGIN = re.compile(rb"-----BEGIN (?:[A-Z0-9]{1,16} ){0,3}PRIVATE KEY(?: BLOCK)?-----|PuTTY-User-Key-File-\d")
_END = re.compile(rb"-----END [A-Z0-9 ]{1,60}-----|Private-MAC: [0-9a-f]{1,128}")
_BODY = re.compile(rb"(?:(?:\s|\\n|\\r|\"|,){1,8}[A-Za-z0-9+/=:-]{8,128}){0,400}")
_LONGEST_KEY = 64 << 10
_LOOKS_BACK = 48
# More triggers than this in a step are no tokens but text of the pattern's own letters: all of it is taken,
# at one look a byte; a quadratic pattern might take one for each pair of them.
_MOST, _STEP, _LONGEST = 64, 4096, 1024
_RUN = re.compile(rb"[A-Za-z0-9_\-+/=.~%]{12,}")


@dataclass(frozen=True)
class Pattern:
    """What one detector looks for. ``triggers``: a text without any of them holds none."""

    what: str
    triggers: tuple[bytes, ...] | None
    patterns: tuple[re.Pattern[Any], ...]
    is_quadratic: bool = False  # in text of its own letters
    random: bool = False  # only what looks random: the prefix alone may be a word's

    def find(self, data: bytes, text: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
        """The tokens that begin in a part of ``data``; ``text`` is the same as latin-1."""
        # A trigger may stand in the middle of a token.
        for start in range(max(0, begin - _LOOKS_BACK), end, _STEP):
            yield from self._find(data, text, start, min(end, start + _STEP))

    def _find(self, data: bytes, text: str, begin: int, end: int) -> Iterator[tuple[int, int, str]]:
        behind = min(len(data), end + _LONGEST)
        if (
            self.is_quadratic
            and self.triggers
            and sum(data.count(one, begin, end) for one in self.triggers) > _MOST
        ):
            for run in _RUN.finditer(data, max(0, begin - _LONGEST), behind):
                if run.end() > begin and any(one in run[0] for one in self.triggers):
                    yield (*run.span(), self.what)
            return
        for pattern in self.patterns:
            subject = data if isinstance(pattern.pattern, bytes) else text
            for match in pattern.finditer(subject, begin, behind):
                if match.start() >= end:
                    break
                found = _whole(data, *match.span())
                if found is not None and (not self.random or _random(data[slice(*found)])):
                    yield (*found, self.what)


@functools.cache
def patterns() -> tuple[Pattern, ...]:
    """All that is looked for; detect-secrets is imported when something is searched first."""
    import importlib

    found = []
    for (module, name), triggers in _DETECTORS.items():
        detector = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), name)
        # The second pattern of AWS goes by a name, that of Artifactory begins with two letters of any word.
        expressions = tuple(detector.denylist)[: 1 if module in ("aws", "artifactory") else None]
        found.append(Pattern(detector.secret_type, triggers, expressions, is_quadratic=module == "jwt"))
    token = re.compile(rb"\b(?:" + _by_first_letter(_PREFIXES.split()) + rb")[A-Za-z0-9_\-+/=.]{16,1024}")
    found.append(
        Pattern("an issuer's token", tuple(one.encode() for one in _PREFIXES.split()), (token,), random=True)
    )
    return tuple(found)


def _by_first_letter(words: Sequence[str]) -> bytes:
    """An alternation that the regular expressions go through three times as fast as the plain one."""
    letters = sorted({word[0] for word in words})
    rest = {letter: [re.escape(word[1:]) for word in words if word[0] == letter] for letter in letters}
    return "|".join(f"{letter}(?:{'|'.join(each)})" for letter, each in rest.items()).encode()


def keys_in(data: bytes) -> Iterator[tuple[int, int, str]]:
    """Private keys, of any number of lines; over a whole file."""
    if b"PRIVATE KEY" not in data and b"PuTTY-User-Key" not in data:
        return
    done, end = 0, _END.search(data)
    for begin in _BEGIN.finditer(data):
        if begin.start() < done:
            continue
        while end is not None and end.start() < begin.end():
            end = _END.search(data, end.end())
        if end is not None and end.start() - begin.end() <= _LONGEST_KEY:
            done = end.end()
        else:
            body = _BODY.match(data, begin.end())
            done = body.end() if body is not None else begin.end()
        yield begin.start(), done, "a private key"


def _random(value: bytes) -> bool:
    """Behind an issuer's prefix a digit and a few different letters will do."""
    tail = value[-16:]
    return any(48 <= byte <= 57 for byte in tail) and len(set(tail)) >= 4


def _whole(data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """The token that a match lies in, up to its end; None inside a longer word, as in a mangled name."""
    while start < stop and data[start] not in _TOKEN:
        start += 1
    while stop > start and data[stop - 1] not in _TOKEN:
        stop -= 1
    if start and data[start - 1] in _LETTERS:
        return None
    rest = data[stop : stop + 4096]
    return start, stop + len(rest) - len(rest.lstrip(_TOKEN_LETTERS))
