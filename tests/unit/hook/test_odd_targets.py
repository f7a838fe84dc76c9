"""Targets that close, delete or interrupt what the hook works with keep what is theirs."""

from __future__ import annotations

import pytest

from .conftest import ADD, Run

CALL = "x = torch.ones(8)\nadd[(1,)](x, x, x, 8, BLOCK=8)\n"
CLOSE_ALL = "import os\nos.closerange(3, 256)\nfiles = [open(f'mine{k}', 'w+') for k in range(12)]\n"
USE = "for file in files: print('mine', file=file, flush=True)\n"
CHECK = "print({open(f'mine{k}').read() for k in range(12)})"


@pytest.mark.long
@pytest.mark.parametrize("daemon", [False, True])
def test_closed_descriptors_are_never_mistaken_for_ours(run: Run, daemon: bool) -> None:
    fork = "pid = os.fork()\nif pid: os.waitpid(pid, 0); os._exit(0)\n" if daemon else ""
    script = ADD + CALL + CLOSE_ALL + fork + USE + CALL + CALL + CHECK
    outcome = run(script, fresh=True, kernel="add", launch=[0, 100])
    assert outcome.stdout == "{'mine\\n'}\n", outcome.stderr
    assert sum(len(process.completes) for process in outcome.processes) == 3
    assert "Exception" not in outcome.stderr


@pytest.mark.long
def test_closed_memfds_are_not_written_to(run: Run) -> None:
    outcome = run(ADD + CALL + CLOSE_ALL + USE + CALL + CHECK, fresh=True, when="nonfinite", keep_memfds=True)
    assert outcome.stdout == "{'mine\\n'}\n", outcome.stderr
    assert [launch["pre"]["memfd"] for launch in outcome.only.launches] == [0, 1]


def test_a_deleted_working_folder(run: Run) -> None:
    script = ADD + "import os\nos.mkdir('gone'); os.chdir('gone'); os.rmdir('../gone')\n" + CALL
    assert len(run(script).only.completes) == 1


def test_last_uses_the_memfds_of_dropped_launches_again(run: Run) -> None:
    script = ADD + (
        "nan = torch.full((8,), float('nan'))\n"
        "for k in range(8): add[(1,)](nan, nan, torch.zeros(8), 8, BLOCK=8)\n"
    )
    process = run(script, when="nonfinite", last=2, keep_memfds=True).only
    assert len(process.completes) == 8
    assert {launch["pre"]["memfd"] for launch in process.launches} == {0, 1, 2}


def test_an_interrupted_capture_gives_its_place_to_the_next_launch(run: Run) -> None:
    script = ADD + (
        "def stopped(meta): raise KeyboardInterrupt\n"
        "x = torch.ones(8)\n"
        "try: add[stopped](x, x, x, 8, BLOCK=8)\n"
        "except KeyboardInterrupt: print('stopped')\n"
        "add[(1,)](x, x, x, 8, BLOCK=8)\n"
    )
    outcome = run(script, kernel="add")
    assert outcome.stdout == "stopped\n"
    assert [launch["ordinal"] for launch in outcome.only.launches] == [1]
    assert outcome.only.failures == ["interrupted by KeyboardInterrupt"]


def test_a_parameter_named_self(run: Run) -> None:
    script = (
        "import torch, triton, triton.language as tl\n"
        "@triton.jit\ndef fill(self, n, B: tl.constexpr):\n"
        "    tl.store(self + tl.arange(0, B), 2.0, mask=tl.arange(0, B) < n)\n"
        "x = torch.zeros(8)\nfill[(1,)](x, 8, B=8)\nprint(x.sum().item())\n"
        "try: fill[(1,)](self=x, n=8, B=8)\nexcept TypeError as error: print(error)\n"
    )
    plain, outcome = run(script, hooked=False), run(script)
    assert plain.stdout.startswith("16.0\n") and outcome.stdout == plain.stdout
    assert [argument["name"] for argument in outcome.only.launches[0]["arguments"]] == ["self", "n", "B"]
