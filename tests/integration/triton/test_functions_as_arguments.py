"""A kernel that is passed jit functions: each set of functions has its own source in its reproducer."""

from __future__ import annotations

import pytest

from kerncap.format import Reproducer, schema
from tests.integration.conftest import CommandLine

TARGET = """
    @triton.jit
    def scaled(v):
        return v * 3.0

    thrice = scaled

    @triton.jit
    def scaled(v):
        return v * 5.0

    @triton.jit
    def square(v):
        return v * v

    @triton.jit
    def half(v):
        return v * 0.5

    @triton.jit
    def apply(x_ptr, y_ptr, ACT: tl.constexpr, PAIR: tl.constexpr, BLOCK: tl.constexpr):
        i = tl.arange(0, BLOCK)
        value = ACT(tl.load(x_ptr + i))
        tl.store(y_ptr + i, PAIR[1](value) + PAIR[0])

    x = torch.arange(8.0)
    for act, pair in [(square, (1, half)), (half, (2, square))]:
        y = torch.zeros(8)
        apply[(1,)](x, y, ACT=act, PAIR=pair, BLOCK=8)
        print(y.tolist())
    """


def functions_of(manifest: schema.Manifest) -> dict[str, str]:
    """The names of the functions among the arguments, by argument."""
    found = {}
    for argument in manifest.arguments:
        value = argument.value
        for item in value.items if isinstance(value, schema.SequenceValue) else (value,):
            if isinstance(item, schema.FunctionValue):
                found[argument.name] = item.name
    return found


@pytest.mark.long
def test_each_launch_is_replayed_with_its_own_functions(kerncap: CommandLine) -> None:
    target = kerncap.target(TARGET)
    paths = kerncap.capture("-k", "apply", "--launch", "0:2", target=target, expect=2)
    functions = {}
    for path in paths:
        manifest = Reproducer.open(path).manifest
        functions[manifest.launch.ordinal] = functions_of(manifest)
        done = kerncap("replay", path)
        assert done.result_line.startswith("Result: PASS"), done.stdout + done.stderr
    assert functions == {0: {"ACT": "square", "PAIR": "half"}, 1: {"ACT": "half", "PAIR": "square"}}


@pytest.mark.long
def test_a_candidate_may_change_a_function_that_was_passed(kerncap: CommandLine) -> None:
    target = kerncap.target(TARGET)
    [path] = kerncap.capture("-k", "apply", target=target)
    source = (path / "source" / "kernel.py").read_text()
    changed = kerncap.folder / "changed.py"
    changed.write_text(source.replace("v * 0.5", "v * 0.25"))
    assert source != changed.read_text()
    assert kerncap("verify", path, "--candidate", changed).status == 1
    changed.write_text(source.replace("v * 0.5", "v / 2"))
    assert kerncap("verify", path, "--candidate", changed).status == 0


@pytest.mark.long
def test_two_functions_of_one_name_stay_apart(kerncap: CommandLine) -> None:
    target = kerncap.target(
        TARGET.replace("[(square, (1, half)), (half, (2, square))]", "[(thrice, (1, scaled))]")
    )
    [path] = kerncap.capture("-k", "apply", target=target)
    names = functions_of(Reproducer.open(path).manifest)
    assert names["ACT"] != names["PAIR"]
    done = kerncap("replay", path)
    assert done.result_line.startswith("Result: PASS"), done.stdout + done.stderr
