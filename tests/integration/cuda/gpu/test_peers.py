"""Launches that span GPUs: NCCL's collectives, symmetric memory, kernels that wait for another device's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kerncap.format import Reproducer
from kerncap.format.schema import Manifest
from tests.integration.conftest import CommandLine

from .captured import FIRST_OF_EACH, TARGETS

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(400), pytest.mark.usefixtures("two_devices")]
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2")
NO_MULTICAST = {
    "NCCL_NVLS_ENABLE": "0", "TORCH_SYMM_MEM_DISABLE_MULTICAST": "1", "NVSHMEM_DISABLE_NVLS": "1",
}  # fmt: skip


@dataclass(frozen=True)
class Ranks:
    """What was captured of rank 1 of a program, and how `verify` judges each of it."""

    kerncap: CommandLine
    manifests: dict[Path, Manifest]
    said: str
    failed: list[str]

    def verdicts(self, *paths: Path) -> dict[Path, dict[str, Any]]:
        wanted = paths or tuple(self.manifests)
        done = self.kerncap("verify", "--json", "--timeout", "3", *wanted, timeout=300)
        document = json.loads(done.stdout)
        if len(wanted) == 1:
            return {wanted[0]: document}
        judged = document["reproducers"]
        return {Path(each["path"]): each["verdict"] or {"result": each["error"]} for each in judged}

    def of(self, word: str) -> list[Path]:
        found = [path for path, manifest in self.manifests.items() if word in manifest.kernel.qualified_name]
        assert found, f"no {word} among {sorted(path.name for path in self.manifests)}\n{self.said}"
        return found


def ranks_of(kerncap: CommandLine, program: str, kernels: str, *words: str) -> Ranks:
    command = (*TORCHRUN, TARGETS / program, *words)
    plain = subprocess.run(
        list(map(str, command)), env={**os.environ, **NO_MULTICAST}, capture_output=True, text=True,
        timeout=200, check=True,
    )  # fmt: skip
    options = ("--json", "--no-self-check", "-k", kernels, *FIRST_OF_EACH, "--rank", "1")
    output = ("-o", "-".join((Path(program).stem, *words)))
    done = kerncap("capture", *options, *output, "--", *command, env=NO_MULTICAST, timeout=300)
    document = json.loads(done.stdout)
    assert document["target_status"] == 0, done.stderr
    assert plain.stdout.strip() and plain.stdout.strip() in done.stderr
    manifests = {}
    for path in document["captured"]:
        with Reproducer.open(kerncap.folder / path) as reproducer:
            manifests[kerncap.folder / path] = reproducer.manifest
    return Ranks(kerncap, manifests, done.stderr, document["failed"])


@pytest.fixture(scope="module")
def collectives(kerncap_of_module: CommandLine) -> Ranks:
    return ranks_of(kerncap_of_module, "ranks_collectives.py", ".")


@pytest.fixture(scope="module")
def symmetric(kerncap_of_module: CommandLine) -> Ranks:
    return ranks_of(kerncap_of_module, "ranks_symmetric.py", "add_peer|sum_of_buffers|put|all_reduce|barrier")


def check_collectives(ranks: Ranks, least: int) -> None:
    """They are undecided by name, and all else passes."""
    nccl = ranks.of("nccl")
    assert len(nccl) >= least, ranks.said
    for path in nccl:
        assert ranks.manifests[path].closure.not_held[0].startswith("NCCL's communicator")
        assert sum(file.stat().st_size for file in path.rglob("*") if file.is_file()) < 1 << 20
    for path, verdict in ranks.verdicts().items():
        assert verdict["result"] == ("undecided" if path in nccl else "pass"), (path, verdict)


def test_each_collective(collectives: Ranks) -> None:
    check_collectives(collectives, 4)


@pytest.mark.parametrize("way", ["ddp", "fsdp", "tp"])
def test_a_training_step(kerncap_of_module: CommandLine, way: str) -> None:
    ranks = ranks_of(kerncap_of_module, "ranks_steps.py", ".", way)
    assert len(ranks.manifests) >= 10, ranks.said
    check_collectives(ranks, 1)


def test_triton_kernels_over_peers_buffers_replay_alone(symmetric: Ranks) -> None:
    wanted = [path for word in ("add_peer", "sum_of_buffers", "put") for path in symmetric.of(word)]
    for path in wanted:
        assert any(region.shared for region in symmetric.manifests[path].regions), path
    for path, verdict in symmetric.verdicts(*wanted).items():
        assert verdict["result"] == "pass", (path, verdict)


def test_symmetric_memory_is_verified_or_undecided_by_name(symmetric: Ranks) -> None:
    for path, verdict in symmetric.verdicts().items():
        assert verdict["result"] in ("pass", "undecided"), (path, verdict)
        if verdict["result"] == "undecided":
            assert any("another process's memory" in reason for reason in verdict["reasons"]), verdict
