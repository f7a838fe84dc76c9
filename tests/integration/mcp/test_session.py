"""A client of the official SDK over stdio: captures, verifies and sanitizes a sample, and meets the rules."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio

from kerncap.mcp import child
from tests.integration import forked_commands
from tests.integration.small_softmax import small_softmax
from tests.unit.replay.build import add

if TYPE_CHECKING:
    from mcp import Client

GOLDEN = Path(__file__).parents[2] / "golden"
SLEEPER = """
import os, time

open("pids", "w").write(str(os.getpid()))
print("up", flush=True)
time.sleep(600)
"""


KERNCAP = (sys.executable, "-m", "kerncap")


def session(
    root: Path, steps: Callable[[Client], Awaitable[None]], *options: str, kerncap: tuple[str, ...] = KERNCAP
) -> None:
    """Run ``steps`` against a server on ``root``."""
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters

    async def main() -> None:
        server = StdioServerParameters(
            command=kerncap[0],
            args=[*kerncap[1:], "mcp", "--root", str(root), *options],
            env={**os.environ, "TRITON_INTERPRET": "1"},
        )
        async with Client(server) as client:
            await steps(client)

    with ThreadPoolExecutor(1) as threads:  # a browser of another test has a loop in this thread
        threads.submit(anyio.run, main).result()


async def call(client: Client, name: str, **arguments: Any) -> Any:
    """The document of a call that has one."""
    done = await client.call_tool(name, arguments)
    assert not done.is_error, done.content
    return done.structured_content["document"]


async def refused(client: Client, name: str, **arguments: Any) -> str:
    done = await client.call_tool(name, arguments)
    assert done.is_error and done.structured_content["document"] is None
    assert done.structured_content["exit_status"] in (None, 2, 3, 4)
    [content] = done.content
    assert content.type == "text"
    return content.text


def test_captures_verifies_and_sanitizes(tmp_path: Path) -> None:
    """The client holds every answer against the tool's output schema."""
    small_softmax(tmp_path)
    heard: list[str | None] = []

    async def progress(_done: float, _total: float | None, message: str | None) -> None:
        heard.append(message)

    async def steps(client: Client) -> None:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        hints = {name: tool.annotations for name, tool in tools.items()}
        assert hints["inspect"] is not None and hints["inspect"].read_only_hint
        assert hints["capture"] is not None and hints["capture"].destructive_hint

        done = await client.call_tool(
            "capture", {"command": [sys.executable, "run.py"]}, progress_callback=progress
        )
        assert not done.is_error, done.content
        assert "softmax: 4 rows of 100 agree with torch (cpu)" in done.structured_content["lines"]
        [repro] = done.structured_content["document"]["captured"]
        assert Path(repro).is_relative_to(tmp_path)

        assert (await call(client, "verify", repro=repro))["result"] == "pass"
        wrong = await client.call_tool("verify", {"repro": repro, "candidate": "wrong.py"})
        assert wrong.structured_content["exit_status"] == 1 and not wrong.is_error
        assert wrong.structured_content["document"]["result"] == "fail"
        [launch] = (await call(client, "sanitize", repro=repro))["launches"]
        assert (launch["proved"], launch["violated"]) == (2, 0)
        assert (await call(client, "inspect", repro=repro))["manifest"]["kernel"]["name"] == "softmax_kernel"

        resources = (await client.list_resources()).resources
        assert [resource.name for resource in resources] == [Path(repro).name]
        source = await client.read_resource(f"kerncap://source/{Path(repro).relative_to(tmp_path)}")
        assert "def softmax_kernel" in source.contents[0].text  # type: ignore[union-attr]

    session(tmp_path, steps, kerncap=(str(forked_commands.client()),))
    assert "softmax: 4 rows of 100 agree with torch (cpu)" in heard


SPINS = """
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    for _ in range(10**12):
        pass
"""


def test_the_rules(tmp_path: Path) -> None:
    """Trust, folders and time; what a call started ends with it."""
    stranger = tmp_path / "stranger"
    shutil.copytree(GOLDEN / "v1.3", stranger)
    (tmp_path / "sleep.py").write_text(SLEEPER)
    (tmp_path / "spins.py").write_text(SPINS)
    own = add().seal(tmp_path)

    async def steps(client: Client) -> None:
        told = await refused(client, "replay", repro="stranger")
        assert "Replaying it would execute: " in told and "This server never trusts a reproducer" in told
        assert "unknown field `trust`" in await refused(client, "replay", repro="stranger", trust=True)
        assert "outside the folders" in await refused(client, "inspect", repro="..")
        leading_out = await client.read_resource("kerncap://source/../../etc")
        assert "no reproducer" in leading_out.contents[0].text  # type: ignore[union-attr]

        sleeps = [sys.executable, "sleep.py"]
        assert await given_up_at_the_first_progress(client, "capture", command=sleeps) == "up"
        await ended(tmp_path / "pids")
        late = await refused(client, "capture", command=[sys.executable, "sleep.py"], timeout_s=4)
        assert "not done after 4 s" in late
        await ended(tmp_path / "pids")
        heard = await given_up_at_the_first_progress(client, "verify", repro=own.name, candidate="spins.py")
        assert heard == "kerncap: verify: smoke, stage 1 of 8"
        assert (await call(client, "inspect", repro=own.name))["digests"] == "verified"

    session(tmp_path, steps)


async def given_up_at_the_first_progress(client: Client, name: str, **arguments: Any) -> str:
    """The call is cancelled when the client hears of it; all that ran for it ends. What was heard."""
    before = set(child._descendants(os.getpid()))
    heard: list[str] = []
    with anyio.CancelScope() as scope:

        async def progress(_done: float, _total: float | None, message: str | None) -> None:
            heard.append(message or "")
            assert set(child._descendants(os.getpid())) - before
            scope.cancel()

        await client.call_tool(name, arguments, progress_callback=progress)
    assert scope.cancelled_caught and heard
    until = time.monotonic() + 200
    while left := set(child._descendants(os.getpid())) - before:
        assert time.monotonic() < until, [Path(f"/proc/{pid}/status").read_text() for pid in left]
        await anyio.sleep(0.1)
    return heard[0]


def test_read_only(tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / "v1.3", tmp_path / "stranger")

    async def steps(client: Client) -> None:
        names = {tool.name for tool in (await client.list_tools()).tools}
        assert names == {"doctor", "inspect", "sanitize", "diff", "from_core", "read_result"}
        assert "no tool is called capture" in await refused(client, "capture", command=["true"])
        assert (await call(client, "inspect", repro="stranger"))["digests"] == "verified"

    session(tmp_path, steps, "--read-only")


async def ended(file: Path) -> None:
    """The process that wrote its number there is gone, or goes within the time that it is given."""
    pid = int(file.read_text())
    until = time.monotonic() + 200
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} is still there"
        await anyio.sleep(0.1)
