"""Whose process it is in a distributed program, and processes of other ranks, which take nothing."""

from __future__ import annotations

import pytest

from kerncap.format.records import RecordKind

from .conftest import ADD, Process, Run

ONE = ADD + "x = torch.ones(8)\nfor _ in range(3): add[(1,)](x, x, x, 8, 8)\n"
LATE = ADD + "import os\nos.environ['RANK'] = '2'\nx = torch.ones(8)\nadd[(1,)](x, x, x, 8, 8)\n"


def ranks(process: Process) -> tuple[int | None, int | None]:
    described = process.all(RecordKind.PROCESS)[0]
    return described["rank"], described["local_rank"]


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({}, (None, None)),
        ({"RANK": "5", "LOCAL_RANK": "1", "SLURM_PROCID": "9"}, (5, 1)),
        ({"RANK": "x", "OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "0"}, (3, 0)),
        ({"PMI_RANK": "-1", "SLURM_PROCID": "4"}, (4, None)),
    ],
)
def test_the_environment_says_it(
    run: Run, environment: dict[str, str], expected: tuple[int | None, int | None]
) -> None:
    assert ranks(run(ONE, environment=environment, kernel="no").only) == expected


def test_a_worker_may_set_it_itself(run: Run) -> None:
    process = run(LATE, ranks=[2]).only
    assert ranks(process) == (2, None) and len(process.launches) == 1


def test_processes_of_other_ranks_take_nothing(run: Run) -> None:
    for environment in ({"RANK": "1"}, {}):
        process = run(ONE, environment=environment, ranks=[0, 2]).only
        assert not process.launches and process.counts("__main__.add")["filtered"] == {"rank": 3}
    assert len(run(ONE, environment={"RANK": "2"}, ranks=[0, 2]).only.launches) == 1


@pytest.mark.long
def test_where_has_the_rank(run: Run) -> None:
    wanted = ["==", ["name", "rank"], ["const", 1]]
    assert len(run(ONE, environment={"RANK": "1"}, where=wanted).only.launches) == 1
    assert not run(ONE, environment={"RANK": "0"}, where=wanted).only.launches
