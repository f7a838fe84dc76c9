"""The cheats that evaluators of kernels have met in public: each is reported by name, and honest rewrites pass.

Each candidate says in its docstring what it does, where that was seen, and what has to be said of it.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from kerncap.answer import Answer
from kerncap.api.verify import VerifyOptions, parse_stages
from kerncap.api.verify.verify_result import STAGES
from kerncap.errors import UsageError
from tests.integration.conftest import CommandLine
from tests.parameters import first_of

from .edited import CAPTURED, RIGHT
from .resident import CHEATS, Cheat, Resident, reopened, resident

CLASSES = {
    "noop", "stale", "inputs_changed", "other_stream", "late_writes", "clock", "patched_comparison",
    "by_address", "by_content", "in_a_file", "many_at_once", "impossible_time", "warm_cache",
    "lower_precision", "tolerance", "bias", "constant", "one_shape", "nan", "oracle_file", "oracle_memory",
    "device_scan", "forged_reply", "exit", "other_process", "replaced_package", "shared_memory",
}  # fmt: skip
# One of each kind; the others are judged in `make test-all`.
SHORT = {
    "stale", "other_stream", "clock", "patched_comparison", "by_content", "impossible_time", "constant",
    "oracle_memory", "forged_reply", "hidden_square",
}  # fmt: skip
ON_HOST = [
    pytest.param(cheat, id=cheat.name, marks=() if cheat.name in SHORT else pytest.mark.long)
    for cheat in CHEATS.values()
    if not cheat.host.startswith("none: ")
]
# What a host wrapper can do, and what is said of it where a kernel is judged.
WRAPPERS = {
    "a function in place of the kernel": (
        CAPTURED + "\nkernel = rms_rows\ndef rms_rows(*args, **kwargs):\n    return kernel[(4,)](*args)\n",
        "rms_rows in wrapper.py is not a @triton.jit function but a function",
    ),
    "a lazy tensor in place of a result": (
        "class Lazy(__import__('torch').Tensor):\n    pass\n"
        + CAPTURED[: CAPTURED.index("    row =")] + "    return Lazy()\n",
        "bytes of out_ptr were never written (first at out_ptr[0, 0])",
    ),
    "torch in place of the computation": (
        CAPTURED.replace("scale = ", "torch.ones(1)\n    scale = "),
        "sanitizer: it does not compile, and the captured kernel does: ",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows(kerncap_of_module: CommandLine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    folder = tmp_path_factory.mktemp("candidates")
    with resident(kerncap_of_module, folder, VerifyOptions(trust=True)) as opened:
        yield opened


def test_every_class_has_a_candidate() -> None:
    assert len(CLASSES) == 27
    assert CLASSES <= CHEATS.keys()
    assert all(cheat.source for cheat in CHEATS.values())


@pytest.mark.parametrize("cheat", ON_HOST)
def test_a_cheat_is_told_by_name(rows: Resident, cheat: Cheat) -> None:
    result = rows.cheat(cheat.name, cheat.stages(cheat.host))
    assert result.passed == (cheat.host == RIGHT), result.verdict.reasons
    if not result.passed:
        assert any(cheat.host in reason for reason in result.verdict.reasons), result.verdict.reasons


@first_of("name", WRAPPERS)
def test_what_takes_a_host_wrapper_has_no_place_in_a_kernel(rows: Resident, name: str) -> None:
    text, said = WRAPPERS[name]
    file = rows.case.folder / "wrapper.py"
    file.write_text(text)
    result = rows.judge_file(file, ("oracle", "sanitizer") if said.startswith("sanitizer") else ("oracle",))
    assert not result.passed
    assert any(said in reason for reason in result.verdict.reasons), result.verdict.reasons


def test_a_case_for_one_number_is_undecided(rows: Resident) -> None:
    file = rows.case.folder / "one_number.py"
    file.write_text(CAPTURED.replace("    w = tl", "    x = tl.where(x == 1.25, 1.5, x)\n    w = tl"))
    verdict = rows.judge_file(file).verdict
    assert verdict.answer is Answer.UNDECIDED, verdict
    assert verdict.reasons[0].startswith("on boundary values of x_ptr, w_ptr: differs"), verdict


def test_a_condition_that_only_other_values_turn_is_shown(rows: Resident) -> None:
    file = rows.case.folder / "either.py"
    file.write_text(
        CAPTURED.replace("x * scale * w", "tl.where(tl.abs(x) > 50.0, w * x * scale, x * scale * w)")
    )
    assert rows.judge_file(file).passed


@pytest.fixture(scope="module")
def attacked(rows: Resident, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resident]:
    """The same launch, judged as `verify --hostile` does."""
    options = VerifyOptions(trust=True, hostile=True)
    with reopened(rows, tmp_path_factory.mktemp("hostile"), options) as opened:
        yield opened


def test_the_files_that_hold_the_result_are_out_of_reach(attacked: Resident) -> None:
    result = attacked.cheat("oracle_file")
    assert not result.passed
    assert result.verdict.reasons[0].startswith("the kernel raised: ValueError: not enough values"), "no file"
    reads = f"open({str(attacked.case.reproducer.path / 'manifest.json')!r}).read()"
    file = attacked.case.folder / "reads.py"
    file.write_text(CAPTURED.replace("import torch\n", f"import torch\n{reads}\n"))
    result = attacked.judge_file(file)
    assert not result.passed and "PermissionError" in result.verdict.reasons[0], result.verdict.reasons


def test_an_honest_candidate_passes_among_attackers(attacked: Resident) -> None:
    result = attacked.honest("other_split")
    assert result.passed, result.verdict.reasons
    assert result.stages[0].shown[1].startswith("its Python ran in a separate process")


@pytest.mark.long
@pytest.mark.parametrize("cheat", ON_HOST)
def test_no_cheat_passes_among_attackers(attacked: Resident, cheat: Cheat) -> None:
    result = attacked.cheat(cheat.name, cheat.stages(cheat.host))
    assert result.passed == (cheat.host == RIGHT), result.verdict


@pytest.mark.long
def test_another_order_passes_every_stage(rows: Resident) -> None:
    result = rows.honest("other_order", STAGES[1:])
    assert result.passed, result.verdict.reasons
    assert {stage.name: stage.result for stage in result.stages} == dict.fromkeys(STAGES, "pass")
    shown = {stage.name: stage.shown for stage in result.stages}
    assert shown["determinism"] == [
        "the captured kernel: 2 runs agree bit by bit", "the candidate: 2 runs agree bit by bit"
    ]  # fmt: skip
    assert shown["numerics"][0] == "against the same source in float64"
    assert shown["numerics"][2].startswith("out_ptr, the candidate: ulps max ")
    assert shown["shapes"] == [
        "as the captured kernel on other values of x_ptr, w_ptr",
        "as the captured kernel on rows = 3",
        "as the captured kernel on rows = 1",
        "as the captured kernel on columns = 99",
        "as the captured kernel on columns = 51",
        "as the captured kernel on columns = 1",
        "as the captured kernel on padded rows (x_stride = 132, out_stride = 108) at other addresses",
        "as the captured kernel on tensors that begin one element later, at other addresses",
    ]
    assert shown["sanitizer"] == ["16 checks proved for every program of the grid, nothing found"]
    assert "bytes of poison around every tensor, the candidate writes none" in shown["memory"][0]
    assert result.as_dict()["stages"][0]["shown"] == ["loads, launches, and ends in time with no fault"]


def test_a_less_exact_kernel_fails_by_its_ulps(rows: Resident) -> None:
    result = rows.cheat("tolerance", ("numerics",))
    assert [stage.result for stage in result.stages] == ["pass", "fail"]
    assert "within tolerance, and less exact throughout" in result.verdict.reasons[0]


def test_stages_that_do_not_exist_are_named() -> None:
    assert parse_stages("memory,oracle") == ("smoke", "oracle", "memory")
    assert parse_stages("all") == STAGES
    with pytest.raises(
        UsageError, match="--stages oracle,speed: speed is not a stage; choose from smoke, oracle"
    ):
        parse_stages("oracle,speed")


@pytest.mark.long
def test_another_split_passes(rows: Resident) -> None:
    result = rows.honest("other_split")
    assert result.passed, result.verdict.reasons
    assert "a second run on the same contents does the work again" in result.stages[1].shown
    assert "as the captured kernel on other values of x_ptr, w_ptr" in result.stages[1].shown
