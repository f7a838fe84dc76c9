"""Secrets of many kinds, none of them real, and a reproducer that holds them in every place that it has."""

from __future__ import annotations

import base64
import hashlib
import json
import shutil
from pathlib import Path

from tests.unit.format.damage import GOLDEN, reseal

A, B, C = "q7Rk2vXb9LmZ4tHs", "W8nYc3PdJ6gTf1Ue", "K5oVh0iQxS2aMj7D"  # letters and digits of no meaning
HEX = hashlib.sha256(b"of no meaning").hexdigest()
AWS = (A + B).upper()[:16]
RSA, SSH, PLAIN = (f"-----{{}} {kind}PRIVATE KEY-----" for kind in ("RSA ", "OPENSSH ", ""))


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _jwt() -> str:
    parts = ({"alg": "HS256"}, {"sub": "1234567890"})
    return ".".join(_b64(json.dumps(part)).rstrip("=") for part in parts) + "." + A + B


# As words of a command line, in one text: (kind, text, what of it must be nowhere).
SECRETS: list[tuple[str, str, tuple[str, ...]]] = [
    ("password option", "--password hunter8pw7x", ("hunter8pw7x",)),
    ("password word", "--password swordfish", ("swordfish",)),
    ("api key option", f"--api-key sk_live_{A}{B}", (A,)),
    ("bearer", f"Authorization: Bearer {A}.{B}", (A, B)),
    ("signed S3 URL", f"https://b.example/x?X-Amz-Credential=AKIA{AWS}&X-Amz-Signature={HEX}", (HEX, AWS)),
    ("password in a URL", "https://mallory:hunter11pwz@git.example/r.git", ("hunter11pwz",)),
    ("PYTORCH_PASS", "PYTORCH_PASS=hunter12pwz", ("hunter12pwz",)),
    ("TRITON_PAT", f"TRITON_PAT={B}", (B,)),
    ("TORCH_WEBHOOK", f"TORCH_WEBHOOK=https://hooks.slack.com/services/T{A[:8]}/B{B[:8]}/{C}", (C,)),
    ("AWS access key", f"AKIA{AWS}", (AWS,)),
    ("AWS secret key", f"AWS_SECRET_ACCESS_KEY={A}/{B}+{C[:6]}", (A, B)),
    ("AWS session token", f"aws_session_token = {A}{B}{C}==", (A + B,)),
    ("GitHub token", f"ghp_{A}{B}{C[:4]}", (A + B,)),
    ("GitHub fine-grained", f"github_pat_{A}_{B}{C}", (B + C,)),
    ("GitLab token", f"glpat-{A}{B[:4]}", (A,)),
    ("Slack token", f"xoxb-123456789012-123456789012-{A}{B[:8]}", (A,)),
    ("Slack app token", f"xapp-1-A012345678-{HEX[:12]}-{HEX}", (HEX,)),
    ("Stripe", f"rk_live_{A}{B[:8]}", (A,)),
    ("Stripe test", f"sk_test_{A}{B}", (A,)),
    ("JWT", _jwt(), (A + B,)),
    ("npm token", f"//registry.example/:_authToken=npm_{A}{B}{C[:4]}", (A + B,)),
    ("PyPI token", f"pypi-AgEIcHlwaS5vcmc{A}{B}{C}{A}{B}{C}", (A + B,)),
    ("Hugging Face", f"hf_{A}{B}{C[:2]}", (A + B,)),
    ("W&B", f"WANDB_API_KEY={HEX[:40]}", (HEX[:40],)),
    ("OpenAI", f"sk-proj-{A}{B}T3BlbkFJ{C}{A}", (A + B,)),
    ("Anthropic", f"sk-ant-api03-{A}-{B}_{C}AA", (B,)),
    ("Google API key", f"AIza{A}{B}{C[:3]}", (A + B,)),
    ("Google OAuth", f"ya29.{A}{B}{C}", (A + B,)),
    ("Azure SAS", f"https://u.blob.example/c?sv=2022-11-02&sp=r&sig={A}%2F{B}%3D", (A, B)),
    ("Azure storage", f"AccountName=x;AccountKey={A}{B}{C}{A}{B}{C[:6]}==;EndpointSuffix=y", (A + B,)),
    ("postgres URL", f"postgresql://svc:{A}@db.example:5432/x", (A,)),
    ("mongodb URL", f"mongodb+srv://svc:{B}@cluster.example/x", (B,)),
    ("redis URL", f"redis://:{C}@cache.example:6379/0", (C,)),
    ("ODBC string", f"Server=db;Uid=svc;Pwd={A};", (A,)),
    ("basic auth header", f"Authorization: Basic {_b64('svc:' + A)}", (_b64("svc:" + A), A)),
    ("cookie", f"Cookie: sid={A}; theme=dark", (A,)),
    ("set-cookie", f"Set-Cookie: session={B}; HttpOnly", (B,)),
    ("X-Api-Key", f"X-Api-Key: {C}", (C,)),
    ("SendGrid", f"SG.{A}{B[:6]}.{B}{C}{A[:11]}", (B + C,)),
    ("Twilio", f"SK{HEX[:32]}", (HEX[:32],)),
    ("Mailchimp", f"{HEX[:32]}-us12", (HEX[:32],)),
    ("Telegram", f"123456789:AA{A}{B}{C[:1]}", (A + B,)),
    ("Discord", f"M{A}{B[:7]}.{C[:6]}.{B}{A[:11]}", (B + A[:11],)),
    ("DigitalOcean", f"dop_v1_{HEX}", (HEX,)),
    ("Shopify", f"shpat_{HEX[:32]}", (HEX[:32],)),
    ("Docker Hub", f"dckr_pat_{A}{B[:11]}", (A,)),
    ("Databricks", f"dapi{HEX[:32]}", (HEX[:32],)),
    ("Vault", f"hvs.{A}{B}", (A + B,)),
    ("Square", f"sq0csp-{A}{B}{C[:11]}", (A + B,)),
    ("NVIDIA", f"nvapi-{A}{B}{C}", (A + B,)),
    ("Groq", f"gsk_{A}{B}{C}", (A + B,)),
    ("Grafana", f"glsa_{A}{B}_{HEX[:8]}", (A + B,)),
    ("private key", "\n".join((RSA.format("BEGIN"), A + B + C, C, RSA.format("END"))), (A + B + C, C)),
    ("SSH key", "\n".join((SSH.format("BEGIN"), B + C + A, A + C, SSH.format("END"))), (B + C + A, A + C)),
    (
        "GCP service account",
        json.dumps({
            "private_key_id": HEX[:40],
            "private_key": "\n".join((PLAIN.format("BEGIN"), A + B, PLAIN.format("END"))),
        }),
        (HEX[:40], A + B),
    ),
    (".netrc", f"machine api.example login svc password {A}", (A,)),
    (
        "kubeconfig",
        f"client-key-data: {_b64(RSA.format('BEGIN') + A)}\n    token: {B}{C}",
        (_b64(RSA.format("BEGIN") + A)[:40], B + C),
    ),
    (
        "docker auth",
        json.dumps({"auths": {"https://index.example/v1/": {"auth": _b64("svc:" + B)}}}),
        (_b64("svc:" + B), B),
    ),
    ("JSON config", json.dumps({"db_password": "correct horse battery"}), ("correct horse battery",)),
    ("YAML", "client_secret: swordfishes", ("swordfishes",)),
    ("TOML", "secret_key = 'swordfishing'", ("swordfishing",)),
]  # fmt: skip


def gone(secret: tuple[str, ...]) -> list[bytes]:
    """What of a secret must be nowhere: as it is, percent-encoded, in hex and in base64."""
    return [one.encode() for text in secret for one in (text, text.encode().hex(), _b64(text)[:-4])]


def plant(parent: Path, text: str) -> Path:
    """The golden reproducer with ``text`` in its command line, environment, notes, source, README and IR."""
    folder = Path(shutil.copytree(GOLDEN, parent / "planted"))
    document = json.loads((folder / "manifest.json").read_bytes())
    words = text.split(" ") if text.startswith("--") else [text]
    document["command"] = ["/home/mallory/env/bin/python", "train.py", *words, "--epochs", "3"]
    name, _, value = text.partition("=")
    plain = name.isidentifier() and name.isupper() and value
    document["environment"] = {"TRITON_INTERPRET": "1", **({name: value} if plain else {"TORCH_LOG": text})}
    document["notes"] = [text, f"as in: {text}"]
    document["oracle"]["detail"] = text
    files = {"README.md": (folder / "README.md").read_bytes() + b"\n" + text.encode() + b"\n"}
    for one in folder.rglob("*"):
        relative = str(one.relative_to(folder))
        if one.suffix == ".py":
            comment = b"".join(b"\n# " + line for line in text.encode().split(b"\n"))
            files[relative] = one.read_bytes() + comment + b"\n"
        elif relative.startswith("code/") and b"\0" not in one.read_bytes():
            files[relative] = one.read_bytes() + b"\n// " + text.encode().replace(b"\n", b"\\n") + b"\n"
    reseal(folder, document, files)
    return folder
