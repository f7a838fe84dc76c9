"""What should not leave the machine is found where it stands, and nothing else is taken for it."""

from __future__ import annotations

import random

import pytest

from kerncap.format.private import Names, Scrubber, people
from kerncap.format.private.pieces import secrets_of

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


def found(text: str) -> list[str]:
    data = text.encode()
    return [data[start:stop].decode() for start, stop, _ in secrets_of(data)]


def clean(
    text: str, name: str = "notes.txt", users: tuple[str, ...] = (), hosts: tuple[str, ...] = ()
) -> str:
    scrubber = Scrubber(Names(users, hosts))
    scrubber.look(name, text.encode())
    once = scrubber.file(name, text.encode())
    assert scrubber.file(name, once) == once
    return once.decode()


@pytest.mark.parametrize("what", SECRETS)
def test_tokens_of_known_shapes(what: str) -> None:
    assert found(f'x = 1\nuse("{SECRETS[what]}")\n') == [SECRETS[what]]


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
        ("pip install https://me:s3cr3tpw@pypi.example/simple", "me:s3cr3tpw"),
        ("db_password: 'p4ssw0rd-9'", "p4ssw0rd-9"),
    ],
)
def test_values_that_their_names_call_secret(text: str, value: str) -> None:
    assert found(text) == [value]


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
    assert clean(text, "kernel.py") == text


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
    assert clean(text.replace("\0", " ")) == text.replace("\0", " ").replace(name, "USER")


def test_names_that_are_known() -> None:
    text = "by alice on gpu-node-17: /tmp/torchinductor_alice/x, /scratch/alice, malice, alice_in_wonderland"
    assert clean(text, users=("alice",), hosts=("gpu-node-17",)) == (
        "by USER on HOST: /tmp/torchinductor_USER/x, /scratch/USER, malice, alice_in_wonderland"
    )


def test_people_stay_apart() -> None:
    assert clean("/home/bob/x /home/alice/y /data/bob/z") == "/home/USER/x /home/USER2/y /data/USER/z"


@pytest.mark.parametrize("name", ["a", "test", "user", "7", "x", "kernel"])
def test_a_name_of_anybodys_is_replaced_below_home_alone(name: str) -> None:
    text = f"{name} = {name}.{name}({name!r})  # /{name}/{name}"
    assert clean(text, "k.py", users=(name,), hosts=(name,)) == text
    assert clean(f"/home/{name}/k.py", users=(name,)) == (
        "/home/x/k.py" if name == "x" else "/home/USER/k.py"
    )


def test_an_identifier_of_the_source_stays() -> None:
    source = "def grace(x):\n    return x  # grace/notes\n"
    assert clean(source, "k.py", users=("grace",)) == source
    assert "/home/USER/" in clean(source + "# /home/grace/k\n", "k.py", users=("grace",))


def test_a_secret_in_code_is_a_string_or_in_a_comment() -> None:
    source = "def f(password=password1, token=TOKEN9x): ...\nP = dict(password='swordfish')  # swordfish\n"
    assert clean(source, "k.py") == source.replace("swordfish", "REDACTED")


def test_images_keep_their_length() -> None:
    image = b"\0\x01/home/alice/a.cu\0" + SECRETS["a GitHub token"].encode() + b"\0"
    scrubber = Scrubber(Names())
    after = scrubber.file("code/kernel.cubin", image)
    assert len(after) == len(image) and b"alice" not in after and b"ghp_" not in after
    assert b"/home/xxxxx/a.cu" in after and scrubber.file("code/kernel.cubin", after) == after


def test_a_path_that_assembly_spells_in_numbers() -> None:
    def spelled(path: str) -> bytes:
        return b"".join(b".b8 %d\n" % byte for byte in path.encode()) + b".b8 0\n"

    clean_one = Scrubber(Names()).file("code/kernel.ptx", spelled("/home/alice/k.py"))
    assert clean_one == spelled("/home/xxxxx/k.py")


def test_a_secret_is_not_shown() -> None:
    scrubber = Scrubber(Names())
    scrubber.file("f", SECRETS["a GitHub token"].encode())
    assert [str(one) for one in scrubber.findings] == ["f:1: GitHub Token (gh… (40 characters)) -> REDACTED"]


_PIECES = (
    b"/home/", b"/Users/", b"source/home/", b"%2Fhome%2F", b"C:\\Users\\", b"home", b"Users", b"/", b"ada",
    b" ", b"homes", b".", b"-", b"\0", b"a" * 70, b"\n", b"'",
)  # fmt: skip


def test_home_folders_are_found_as_by_a_search_of_the_whole_text() -> None:
    """Only the surroundings of a few words are searched; what is cut off there is nobody's name."""
    draw, count = random.Random(3), 0
    for _ in range(3000):
        text = b"".join(draw.choice(_PIECES) for _ in range(draw.randrange(1, 30))) + b" " * 3000
        expected = [match.span() for match in people._HOMES.finditer(text)]
        assert [match.span() for match in people._matches_of_homes(text)] == expected, text
        count += len(expected)
    assert count > 1000
