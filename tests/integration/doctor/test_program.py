"""`kerncap doctor -- CMD` over the stand-in driver: which routes are live, and what was missed."""

from __future__ import annotations

import json

from tests.integration.cuda.conftest import Bench


def test_a_program_whose_launches_are_seen(bench: Bench) -> None:
    done = bench("doctor", "--json", "--", bench.rig.client("vector_add"), "1000", "3")
    document = json.loads(done.stdout)
    assert (done.status, document["result"]) == (0, "ok"), done.stderr
    assert (document["launches"], document["kernels"], document["target_status"]) == (3, 1, 0)
    assert document["routes"] == {"cuLaunchKernel": 3} and document["missed"] == []
    [process] = [one for one in document["processes"] if one["live"]]
    assert process["live"] == ["CUDA shim"] and process["name"] == "vector_add"


def test_a_preload_that_was_dropped_on_the_way(bench: Bench) -> None:
    """The second of two programs is started without it: its launches are missed, and it is said why."""
    client = bench.rig.client("vector_add")
    dropped = "env -u LD_PRELOAD -u CUDA_INJECTION64_PATH"
    # Enough launches that the process is met while it runs.
    done = bench("doctor", "--", "sh", "-c", f"{client} && {dropped} {client} 100000 4000")
    assert done.status == 4
    assert "loaded libcuda and the CUDA shim saw nothing of it: LD_PRELOAD was dropped" in done.stderr
    assert "  -> make its parent pass these on: KERNCAP_SESSION" in done.stderr
    assert "1 launches seen" in done.stderr.splitlines()[-1]


def test_a_program_that_launches_nothing(bench: Bench) -> None:
    done = bench("doctor", "--", "true")
    assert done.status == 4
    assert "note: no process called the CUDA driver" in done.stderr and "--self-test" in done.stderr


def test_a_program_that_is_not_there(bench: Bench) -> None:
    done = bench("doctor", "--", "./none")
    assert done.status == 4 and "./none" in done.stderr
