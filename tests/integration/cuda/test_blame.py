"""`blame` of a native kernel on the stand-in driver: PTX as each ptxas assembles it, and candidates."""

from __future__ import annotations

from tests.integration.blame.test_blame import rows
from tests.integration.cuda.conftest import Bench


def test_the_captured_ptx_and_image_agree(bench: Bench) -> None:
    captured = bench.capture("-k", "vector_add", client=("graphs", "captured"))
    document = bench("blame", "--json", captured.path).document
    [run] = document["runs"]
    found = rows(run)
    assert document["result"] == "pass" and run["guilty"] is None, run
    assert (
        list(found)[-2:] == ["the driver's ptxas", "captured image"] and found["captured image"] == "equal"
    ), run
    assert "no CUDA C++" in run["stages"][0]["why"] and run["triton"] == "" and run["compiler"]
    # A candidate that gives another result, and one that is the same kernel.
    wrong = bench("blame", "--json", "--candidate", bench.candidate("wrong", 1), captured.path)
    [run] = wrong.document["runs"]
    assert wrong.status == 1 and run["guilty"]["stage"] == "source", run
    assert run["guilty"]["what"].startswith("the source does not give the application's result"), run
    right = bench("blame", "--json", "--candidate", bench.candidate("right", 0), captured.path)
    assert right.status == 0 and right.document["result"] == "pass", right.document
