"""Distributed programs: one session, a folder for each rank."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import CommandLine

KERNEL = """
@triton.jit
def mark(x, RANK: tl.constexpr):
    i = tl.arange(0, 8)
    tl.store(x + i, tl.load(x + i) + RANK)
"""
ALONE = KERNEL + "mark[(1,)](torch.zeros(8), RANK=int(os.environ['RANK']))\n"
GLOO = (
    KERNEL
    + """
import torch.distributed as dist
dist.init_process_group("gloo")
x = torch.zeros(8)
mark[(1,)](x, RANK=dist.get_rank())
dist.all_reduce(x)
assert x[0] == 1
dist.destroy_process_group()
"""
)
SPAWN = (
    KERNEL
    + """
import torch.distributed as dist
import torch.multiprocessing as mp
def work(rank, place):
    dist.init_process_group("gloo", rank=rank, world_size=2, init_method=f"file://{place}")
    mark[(1,)](torch.zeros(8), RANK=rank)
    dist.barrier()
    dist.destroy_process_group()
if __name__ == "__main__":
    mp.spawn(work, args=(os.path.abspath("rendezvous"),), nprocs=2)
"""
)


def ranks_of(document: dict[str, Any]) -> list[tuple[int, str]]:
    """Each reproducer's rank, and the folder that it lies in; the manifest has the rank too."""
    found = []
    for each in document["reproducers"]:
        path = Path(each["path"])
        environment = json.loads((path / "manifest.json").read_bytes())["environment"]
        assert environment["RANK"] == str(each["rank"])
        found.append((each["rank"], path.parent.name))
    return found


@pytest.mark.long
def test_two_ranks_of_one_kernel_never_collide(kerncap: CommandLine) -> None:
    target = kerncap.target(ALONE)
    script = f"RANK=1 {sys.executable} {target} & RANK=0 LOCAL_RANK=0 {sys.executable} {target}; wait"
    done = kerncap(
        "capture", "-o", "out", "-k", "mark", "--no-self-check", "--json", "--", "sh", "-c", script
    )
    assert ranks_of(done.document) == [(0, "rank0"), (1, "rank1")], done.stderr
    assert [each["local_rank"] for each in done.document["reproducers"]] == [0, None]


@pytest.mark.long
def test_under_torchrun(kerncap: CommandLine) -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    target = kerncap.target(GLOO)
    done = kerncap("capture", "-k", "mark", "--rank", "1", "--json", "--", *torchrun, target)
    assert ranks_of(done.document) == [(1, "rank1")], done.stderr
    assert [check["result"] for check in done.document["self_checks"].values()] == ["pass"]
    listed = kerncap("list", "--by", "rank", "--json", "--", *torchrun, target).document
    assert sorted(group["name"][0] for group in listed["groups"]) == ["rank 0", "rank 1"]
    assert listed["process_count"] == 2


@pytest.mark.long
def test_workers_that_were_given_their_rank_as_an_argument(kerncap: CommandLine) -> None:
    done = kerncap(
        "capture", "-k", "mark", "--no-self-check", "--json", "--", sys.executable, kerncap.target(SPAWN)
    )
    assert ranks_of(done.document) == [(0, "rank0"), (1, "rank1")], done.stderr
