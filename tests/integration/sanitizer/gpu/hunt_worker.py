"""Generated launches on a device, one after the other: ``hunt_worker.py OUT FIRST LAUNCHES unsafe|safe``.

Each is compared with brute force: a line of JSON in OUT has the sanitizer's answer, and where the device's
memory is not what brute force has. Each kernel has a name of its own, which compute-sanitizer's report tells.
"""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import triton

from tests.fuzz.sanitizer.campaign import LAUNCHES_OF_A_KERNEL
from tests.fuzz.sanitizer.case import Case, brute_force, contents_of, interpret, jit_function
from tests.fuzz.sanitizer.compare import compare, prepare
from tests.fuzz.sanitizer.language import Machine
from tests.fuzz.sanitizer.tile import Undecidable


def renamed(case: Case) -> Case:
    """Under a name of its own, which compute-sanitizer tells."""
    return replace(case, source=case.source.replace("def kernel(", f"def {name_of(case)}(", 1))


def name_of(case: Case) -> str:
    return f"generated_{case.seed}_{case.variant}"


def launch(case: Case) -> dict[str, Any]:
    """The launch on the device; its storages afterwards, by their tensor's name."""
    storages: dict[str, Any] = {}
    given: dict[str, Any] = dict(case.numbers)
    for tensor in case.tensors:
        owner = tensor.same_as or tensor.name
        if owner not in storages:
            storages[owner] = torch.from_numpy(contents_of(case, tensor, tensor.size or 0)).cuda()
        view = storages[owner][tensor.origin :][: tensor.length]
        if tensor.pitch:
            view = view.as_strided(tensor.shape(view.numel()), (tensor.pitch, 1))
        given[tensor.name] = view
    kernel = jit_function(case.file, case.source, name_of(case))
    kernel[case.grid](**given)
    torch.cuda.synchronize()
    return {name: storage.cpu().numpy() for name, storage in storages.items()}


def meets_itself(machine: Machine) -> bool:
    """Whether lanes of one program meet at a place where one of them stores: a device has them in any order.

    Loads count too; stores of one value do not.
    """
    stored: dict[tuple[int, int, int], int] = {}
    for event in machine.events:
        regions, places = (
            each.ravel().tolist() for each in np.broadcast_arrays(event.region, event.relative)
        )
        keys = [(event.program, region, place) for region, place in zip(regions, places, strict=True)]
        if event.kind == "load" and not stored.keys().isdisjoint(keys):
            return True
        if event.kind == "store":
            for key, value in zip(keys, np.ravel(event.values).tolist(), strict=True):
                if stored.setdefault(key, value) != value:
                    return True
    return False


def differences(case: Case, found: dict[str, Any]) -> list[str]:
    """Where the device's memory is not that of brute force."""
    machine, said = interpret(case), []
    if meets_itself(machine):
        return []
    for position, tensor in enumerate(case.tensors):
        if tensor.same_as:
            continue
        expected = machine.stores[machine.arguments[position].store].contents
        actual = found[tensor.name]
        close = (
            np.isclose(actual, expected, rtol=1e-4, atol=1e-3) if tensor.kind == "f32" else actual == expected
        )
        if not close.all():
            at = int(np.flatnonzero(~close)[0])
            said.append(f"{tensor.name}[{at}]: {actual[at]}, by brute force {expected[at]}")
    return said


def one(seed: int, variant: int, unsafe: bool) -> dict[str, Any] | None:
    """What is found out about one launch; None for one that is not wanted, or not decided."""
    try:
        case = prepare(seed, variant)
        verdict = brute_force(case)
    except Undecidable:
        return None
    # A descriptor that breaks its contract is an illegal instruction, which ends the process.
    if bool(verdict.outside) != unsafe or any(check == "descriptor" for check, *_ in verdict.must):
        return None
    outcome = compare(case)
    if outcome.skipped is not None:
        return None
    line = {
        "kernel": name_of(case), "seed": case.name, "answer": outcome.answer, "unsafe": bool(verdict.must),
        "wrong": [f"{each.kind}: {each.text}" for each in outcome.disagreements],
    }  # fmt: skip
    print(case.name, file=sys.stderr, flush=True)
    try:
        found = launch(renamed(case))
    except RuntimeError as error:
        line["failed"] = str(error).splitlines()[0]
        return line
    # Races and memory that nobody wrote leave anything; so do lanes without a value.
    if not verdict.must and not verdict.identical and not case.any_order:
        line["differs"] = differences(case, found)
    return line


def main() -> None:
    out, first, launches, kind = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    triton.set_allocator(lambda size, alignment, stream: torch.empty(size, dtype=torch.int8, device="cuda"))
    done, seed = 0, first
    with out.open("a") as file:
        while done < launches:
            for variant in range(LAUNCHES_OF_A_KERNEL):
                line = one(seed, variant, kind == "unsafe")
                if line is not None and done < launches:
                    done += 1
                    print(json.dumps(line), file=file, flush=True)
            seed += 1


if __name__ == "__main__":
    main()
