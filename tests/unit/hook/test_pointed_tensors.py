"""What tables of addresses lead to: found among the tensors that are alive, and only there."""

from __future__ import annotations

from .conftest import Run

FIND = """
import ctypes, torch
from kerncap_triton.pointed_tensors import pointed_tensors
def found(**values):
    return [(name, tensor.data_ptr() == row.data_ptr()) for name, tensor in pointed_tensors(values.items())]
row, other = torch.arange(64.), torch.zeros(64)
"""


def lines(run: Run, text: str) -> list[str]:
    outcome = run(FIND + text)
    assert outcome.status == 0, outcome.stderr
    return outcome.stdout.splitlines()


def test_tables_numbers_and_tables_of_tables(run: Run) -> None:
    said = lines(
        run,
        "table = torch.tensor([5, 0, row.data_ptr()])\n"
        "print(found(table=table))\n"
        "print(found(address=row.data_ptr() + 100, n=1 << 40))\n"  # somewhere in it; in none
        "outer = torch.tensor([[table.data_ptr(), 0], [0, 0]])\n"
        "print(found(outer=outer[:, :1]))\n"
        "print(found(floats=table.double(), narrow=table.int()))\n",
    )
    assert said == [
        "[('table[2]', True)]",
        "[('address', True)]",
        "[('outer[0]', False), ('outer[0][2]', True)]",
        "[]",
    ]


def test_what_is_passed_is_not_found_again(run: Run) -> None:
    said = lines(
        run,
        "table = torch.tensor([row.data_ptr(), row[7:].data_ptr(), other.data_ptr()])\n"
        "print(found(table=table, other=other[3:]))\n",
    )
    assert said == ["[('table[0]', True)]"]  # once, although two words lead there


def test_memory_of_nothing_that_is_alive(run: Run) -> None:
    said = lines(
        run,
        "buffer = (ctypes.c_float * 64)()\n"
        "print(found(table=torch.tensor([ctypes.addressof(buffer)])))\n"
        "print(found(table=torch.tensor([row.data_ptr() + row.nbytes + (1 << 30)])))\n",
    )
    assert said == ["[]", "[]"]
