"""A command line in a manifest holds no password, in whatever way its program takes one."""

from __future__ import annotations

import pytest

from kerncap.format.private.command import without_secrets
from kerncap.format.private.secret_words import REDACTED

SECRET_WORDS = [
    (["--password", "hunter8pw7x"], "hunter8pw7x"),
    (["--password", "swordfish"], "swordfish"),
    (["--password=swordfish"], "swordfish"),
    (["-phunter10pw"], "hunter10pw"),
    (["mysql", "-u", "root", "-p12345678"], "12345678"),
    (["sshpass", "-p", "swordfish", "ssh", "host"], "swordfish"),
    (["--api-key", "sk_live_4eC39HqLyjWDarjtT1zdp7dc"], "sk_live_"),
    (["--apiKey", "abcdefgh"], "abcdefgh"),
    (["--hub_token", "abcdefgh"], "abcdefgh"),
    (["+trainer.wandb.api_key=abcdefgh"], "abcdefgh"),
    (["-H", "Authorization: Bearer abcdefgh"], "abcdefgh"),
    (["--header=Authorization: Basic bWU6cHc="], "bWU6cHc"),
    (["-H", "Cookie: sid=abcdefgh; theme=dark"], "abcdefgh"),
    (["-H", "X-Api-Key: abcdefgh"], "abcdefgh"),
    (["Authorization:", "Bearer", "abcdefgh"], "abcdefgh"),
    (["-u", "me:swordfish"], "swordfish"),
    (["-ume:swordfish"], "swordfish"),
    (["postgres://me:swordfish@db/x"], "swordfish"),
    (["--db", "mysql+pymysql://me:p%40ss@h/x"], "p%40ss"),
    (["https://x-access-token:abcdefgh@example.org/r.git"], "abcdefgh"),
    (["https://b.example/x?X-Amz-Credential=AKIA&X-Amz-Signature=0a0a0a0a&y=1"], "0a0a0a0a"),
    (["https://u.example/c?sv=2020&sig=abc%2Bdef%3D&se=1"], "abc%2Bdef"),
    (["https://x.example/?token=abcdefgh"], "abcdefgh"),
    (["DB_PASS=swordfish", "python", "a.py"], "swordfish"),
    (["PYTORCH_PASS=swordfish"], "swordfish"),
    (["Server=h;Uid=me;Password=swordfish;"], "swordfish"),
    (["sh", "-c", "mysql -psword9fish --x 1"], "sword9fish"),
    (["bash", "-c", "export DB_PASSWORD=swordfish; run"], "swordfish"),
    (["sh", "-c", "curl -H 'Authorization: Bearer abcdefgh' https://x"], "abcdefgh"),
    (['{"password": "swordfish"}'], "swordfish"),
    (["--config", '{"api_key":"abcdefgh"}'], "abcdefgh"),
]


@pytest.mark.parametrize(("words", "secret"), SECRET_WORDS, ids=range(len(SECRET_WORDS)))
def test_what_is_secret_goes(words: list[str], secret: str) -> None:
    given = ["python", "train.py", *words, "--epochs", "3"]
    clean = without_secrets(given)
    assert secret not in " ".join(clean) and REDACTED in " ".join(clean)
    assert len(clean) == len(given) and clean[-2:] == ("--epochs", "3")
    assert without_secrets(clean) == clean


@pytest.mark.parametrize(
    "words",
    [
        ["train.py", "--max-tokens", "128", "--pad-token", "[PAD]", "--tokenizer", "gpt2", "-pthread"],
        ["--password-file", "/run/secret.txt", "--token-ids", "1,2", "--key", "name", "--sort-key=size"],
        ["https://example.org/x?page=2", "git@github.com:x/y", "ssh://git@host/x", "-p", "8080", "-p8080"],
        ["--author", "me", "--signature-version", "4", "--passes", "12", "--secret-name", "x"],
        ["-O3", "--num-keys", "4", "--keys", "a", "--session", "1234", "--token", "$TOKEN"],
    ],
)
def test_what_is_not_stays(words: list[str]) -> None:
    assert without_secrets(words) == tuple(words)
