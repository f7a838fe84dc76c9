"""What should not leave the machine is found where it stands, and nothing else is taken for it."""

from __future__ import annotations

import pytest

from kerncap.format.private import Finding, Scanner, redacted

SECRETS = {
    "an AWS access key": "AKIA" + "IOSFODNN7EXAMPL3",
    "a GitHub token": "ghp_" + "a1B2" * 9,
    "a GitLab token": "glpat-" + "x7Yz" * 5,
    "a Slack token": "xoxb-" + "123456789012-abcdef",
    "a Hugging Face token": "hf_" + "aB3d" * 9,
    "an API key": "sk-ant-" + "q1W2" * 8,
    "a Google API key": "AIza" + "b3D" * 11 + "xy",
    "an npm token": "npm_" + "a1B2" * 9,
    "a JSON web token": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.dBjftJeZ4CVPmB92K27u",
    "a private key": "-----BEGIN PRIVATE KEY-----\nMIIEowIBAAKCAQEA75\nx9/+=\n-----END PRIVATE KEY-----",
}


def found(text: str, **options: list[str]) -> list[tuple[str, str]]:
    data = text.encode()
    return [(one.what, data[one.start : one.stop].decode()) for one in Scanner(**options).scan("f", data)]


@pytest.mark.parametrize("what", SECRETS)
def test_tokens_of_known_shapes(what: str) -> None:
    ((told, value),) = found(f'x = 1\nuse("{SECRETS[what]}")\n')
    assert told == what and value.strip() == SECRETS[what].strip()


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('API_KEY = "k9f3Lq02vXb7"', "k9f3Lq02vXb7"),
        (
            "WANDB_API_KEY=0123456789abcdef0123456789abcdef01234567",
            "0123456789abcdef0123456789abcdef01234567",
        ),
        ('"command": ["train.py", "--hub-token", "Zx81kq7Lw2"]', "Zx81kq7Lw2"),
        ("--password=hunter2hunter2", "hunter2hunter2"),
        ("pip install https://me:s3cr3tpw@pypi.example/simple", "s3cr3tpw"),
        ("db_password: 'p4ssw0rd-9'", "p4ssw0rd-9"),
    ],
)
def test_values_that_their_names_call_secret(text: str, value: str) -> None:
    ((_, told),) = found(text)
    assert told == value


@pytest.mark.parametrize(
    "text",
    [
        "token = tokenizer.encode(text)",
        "token_ids = tl.load(token_ptr + offsets)",
        'tokens = "the quick brown fox"',
        "max_tokens=4096",
        "secret_key: str = ''",
        'token="xxxxxxxxxxxx1"',
        "sha256: 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "_ZN2at6native18elementwise_kernelILi128ELi4EZNS0_22gpu_kernel_impl_nocastI",
        "see https://example.org/home/docs/index.html and git@github.com:x/y",
        "/" + "root/.cache and /homes and /home and /usr/lib",
        "def forward(self, key, query): return self.token_embedding(key)",
    ],
)
def test_ordinary_text_is_not_accused(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("/home/alice/work/train.py", "alice"),
        ('"/Users/bob b/x"', "bob"),
        ('"/Users/bob/x"', "bob"),
        ("C:\\Users\\carol\\x.py", "carol"),
        ('"C:\\\\Users\\\\carol\\\\x.py"', "carol"),
        ("source/home/dave/kernels/a.cu", "dave"),
        ("\0/home/erin/a.cu\0", "erin"),
        ("cd /home/frank", "frank"),
    ],
)
def test_home_folders(text: str, name: str) -> None:
    assert [value for _, value in found(text)] == [name]


def test_a_home_that_its_name_does_not_tell() -> None:
    assert found("/data/staff/gina/x.py", homes=["/data/staff/gina"]) == [
        ("a home folder", "/data/staff/gina")
    ]
    assert found("/data/staff/ginas/x.py", homes=["/data/staff/gina"]) == []
    assert found("/" + "root/x.py", homes=["/" + "root"]) == []


def test_lines_are_counted_in_text_and_not_in_images() -> None:
    text = b"a\nb\n/home/alice/x\n\n/home/bob/y\n"
    assert [(one.line, one.shown) for one in Scanner().scan("f", text)] == [(3, "alice"), (5, "bob")]
    (one,) = Scanner().scan("f", b"\0\n\n/home/alice/x\0")
    assert one.line is None and str(one) == "f: byte 9: a home folder (alice)"


def test_a_secret_is_not_shown() -> None:
    (one,) = Scanner().scan("f", SECRETS["a GitHub token"].encode())
    assert str(one) == "f:1: a GitHub token (ghp_… (40 characters))"


def test_what_is_filled_up_is_as_long_and_found_no_more() -> None:
    text = ("\n".join(SECRETS.values()) + "\n/home/alice/x /data/gina/y\0").encode()
    look = Scanner(["/data/gina"])
    findings = look.scan("f", text)
    clean = redacted(text, findings)
    assert len(clean) == len(text) and look.scan("f", clean) == []
    assert b"/home/xxxxx/x /xxxx/xxxx/y" in clean and b"alice" not in clean
    assert clean.count(b"\n") == text.count(b"\n")


def test_findings_do_not_overlap() -> None:
    text = 'token="ghp_' + "a1B2" * 9 + '" /home/x1/home/y1/z'
    findings = Scanner().scan("f", text.encode())
    assert all(a.stop <= b.start for a, b in zip(findings, findings[1:], strict=False))
    assert [one.kind for one in findings] == ["secret", "path", "path"]


def test_long_hostile_runs_take_no_time() -> None:
    for text in (b"token" * 100_000, b"a-" * 300_000, b"/home/" * 100_000, b"eyJ" + b"a" * 400_000 + b".eyJ"):
        assert isinstance(Scanner().scan("f", text), list)


def test_kinds_are_those_of_the_options() -> None:
    one = Finding("f", "path", "w", 0, 1, 1, "s")
    assert one.as_dict() == {"kind": "path", "what": "w", "file": "f", "line": 1, "byte": 0, "shown": "s"}
