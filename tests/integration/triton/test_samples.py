"""Every sample does what its README says: its own output, and captured, replayed and verified."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerncap.format import Reproducer
from tests.integration.conftest import CommandLine
from tests.parameters import first_of

SAMPLES = Path(__file__).parents[3] / "samples"
NAMES = sorted(path.parent.name for path in SAMPLES.glob("*/run.py"))
# sample -> (options of capture, the kernels that come out)
CAPTURES: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "vector_add": (("-k", "add_kernel", "--launch", "1"), {"add_kernel"}),
    "inplace_scale": ((), {"scale_kernel"}),
    "softmax": ((), {"softmax_kernel"}),
    "autotuned_matmul": ((), {"matmul_kernel"}),
    "layer_norm": ((), {"layer_norm_forward", "layer_norm_backward"}),
    "flash_attention": ((), {"attention_kernel"}),
    "gather": ((), {"gather_kernel"}),
    "mlp": ((), {"rms_norm", "matmul", "swiglu"}),
    "atomic_histogram": (("-k", "histogram_kernel", "--launch", "1"), {"histogram_kernel"}),
    "out_of_bounds": ((), {"square_kernel"}),
    "nan_on_seventh": (("-k", "standardise_kernel", "--when", "nonfinite"), {"standardise_kernel"}),
    "torch_compile_block": ((), set()),  # Inductor names them
    "cuda_python_axpy": ((), set()),
    "numba_axpy": ((), set()),
    "hip_python_axpy": ((), set()),
    "cutile_scaled_add": ((), set()),
    "cute_dsl_scaled_add": ((), set()),
}
REPAIRED = ("--candidate", SAMPLES / "nan_on_seventh" / "repaired.py")
BY_REFERENCE = ("--reference", SAMPLES / "nan_on_seventh" / "reference.py")


@pytest.fixture(scope="module")
def kerncap(tmp_path_factory: pytest.TempPathFactory) -> CommandLine:
    """One folder for this file: a sample that two tests use is captured once."""
    return CommandLine(tmp_path_factory.mktemp("samples"))


@dataclass(frozen=True)
class Run:
    """A sample as it was run under capture: no test runs it again."""

    stdout: str
    reproducers: tuple[Path, ...]


_runs: dict[str, Run] = {}


def capture(kerncap: CommandLine, sample: str) -> Run:
    if sample not in _runs:
        options = CAPTURES[sample][0]
        environment = kerncap.environment()
        environment.pop("TRITON_INTERPRET", None)  # the sample decides
        out = kerncap.folder / sample
        done = subprocess.run(
            [sys.executable, "-m", "kerncap", "capture", "-o", out, *options, "--",
             sys.executable, SAMPLES / sample / "run.py"],
            cwd=kerncap.folder, env=environment, capture_output=True, text=True, timeout=300,
        )  # fmt: skip
        made = tuple(sorted(out.iterdir())) if out.is_dir() else ()
        assert done.returncode == (0 if made else 1), done.stderr
        _runs[sample] = Run(done.stdout, made)
    return _runs[sample]


def verify(kerncap: CommandLine, reproducer: Path, *options: str | Path) -> str:
    """The `Result:` line, which must agree with the exit status."""
    done = kerncap("verify", reproducer, *options)
    statuses = {"PASS": 0, "FAIL": 1, "UNDECIDED": 5}
    assert done.status == statuses[done.result_line.split()[1]], done.stderr
    return done.result_line


def self_check(reproducer: Path) -> str:
    checks = Reproducer.open(reproducer).checks()
    assert checks is not None and checks.self_check is not None
    return checks.self_check.result


@first_of("name", NAMES)
def test_prints_what_the_readme_says(kerncap: CommandLine, name: str) -> None:
    """The program's own output, which a capture passes through."""
    [line] = capture(kerncap, name).stdout.splitlines()
    promised = re.findall(
        rf"`({name}: [^`]*)`", (SAMPLES / name / "README.md").read_text().replace("\n", " ")
    )
    if not CAPTURES[name][1] and line.endswith(("none was found", "which is not installed")):
        return
    assert promised and line.startswith(promised[0]), (promised, line)


@pytest.mark.long
def test_a_plain_run_is_the_same_program(kerncap: CommandLine) -> None:
    environment = kerncap.environment()
    environment.pop("TRITON_INTERPRET", None)
    command = [sys.executable, SAMPLES / "vector_add" / "run.py"]
    plain = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
    assert plain.stdout == capture(kerncap, "vector_add").stdout


def test_every_sample_is_listed_and_says_what_to_run() -> None:
    index = (SAMPLES / "README.md").read_text()
    for name in NAMES:
        readme = (SAMPLES / name / "README.md").read_text()
        assert f"]({name})" in index
        assert f"python samples/{name}/run.py" in readme
        for named in re.findall(r"samples/\w+/\w+\.py", readme):
            assert (SAMPLES.parent / named).is_file(), f"{name}/README.md names {named}"


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, (_, kernels) in CAPTURES.items() if kernels])
def test_captured_and_checked(kerncap: CommandLine, name: str) -> None:
    """The self-check after a capture replays it and judges it as `verify` does."""
    reproducers = capture(kerncap, name).reproducers
    assert {path.name.rpartition("-")[0] for path in reproducers} == CAPTURES[name][1]
    assert {self_check(path) for path in reproducers} == {"pass"}


@pytest.mark.long
@pytest.mark.parametrize("name", ["autotuned_matmul", "flash_attention", "layer_norm"])
def test_verified_on_its_own(kerncap: CommandLine, name: str) -> None:
    for reproducer in capture(kerncap, name).reproducers:
        assert verify(kerncap, reproducer).startswith("Result: PASS")


@pytest.mark.long
def test_replay_ten_times_scales_once(kerncap: CommandLine) -> None:
    [reproducer] = capture(kerncap, "inplace_scale").reproducers
    done = kerncap("replay", reproducer, "-n", "10")
    assert done.status == 0, done.stderr
    assert done.result_line.startswith("Result: PASS")


@pytest.mark.long
def test_candidates_of_vector_add_fail(kerncap: CommandLine) -> None:
    [first] = capture(kerncap, "vector_add").reproducers
    noop = verify(kerncap, first, "--candidate", SAMPLES / "vector_add" / "noop.py")
    assert "40,000 bytes of z_ptr were never written" in noop
    past = verify(kerncap, first, "--candidate", SAMPLES / "vector_add" / "past_the_end.py")
    assert "outside" in past and "z_ptr" in past


@pytest.mark.long
def test_edits_of_softmax_are_told_apart(kerncap: CommandLine) -> None:
    [reproducer] = capture(kerncap, "softmax").reproducers
    faster = verify(kerncap, reproducer, "--candidate", SAMPLES / "softmax" / "faster.py")
    assert faster.startswith("Result: PASS (within tolerance")
    wrong = verify(kerncap, reproducer, "--candidate", SAMPLES / "softmax" / "wrong.py")
    assert wrong.startswith("Result: FAIL") and "out_ptr" in wrong


@pytest.mark.long
def test_out_of_bounds_store_is_detected(kerncap: CommandLine) -> None:
    [reproducer] = capture(kerncap, "out_of_bounds").reproducers
    candidate = ("--candidate", SAMPLES / "out_of_bounds" / "repaired.py")
    unlike = verify(kerncap, reproducer, *candidate)
    assert unlike.startswith("Result: FAIL") and "past the end of scores_ptr" in unlike
    by_reference = ("--reference", SAMPLES / "out_of_bounds" / "reference.py")
    assert verify(kerncap, reproducer, *candidate, *by_reference).startswith("Result: PASS")


@pytest.mark.long
def test_nan_on_seventh_is_kept_alone_and_repaired(kerncap: CommandLine) -> None:
    [reproducer] = capture(kerncap, "nan_on_seventh").reproducers
    manifest = Reproducer.open(reproducer).manifest
    assert manifest.launch.ordinal == 6, "0-based: the seventh"
    assert (manifest.oracle.kind, manifest.oracle.condition) == ("suspect", "nonfinite")
    assert kerncap("replay", reproducer).status == 0, "the NaN is reproduced"
    broken = verify(kerncap, reproducer, *BY_REFERENCE)
    assert broken.startswith("Result: FAIL") and "nan" in broken
    infinite = verify(kerncap, reproducer, "--expect", "finite")
    assert infinite.startswith("Result: FAIL") and "nan" in infinite
    assert verify(kerncap, reproducer, *REPAIRED, *BY_REFERENCE).startswith("Result: PASS")
    assert verify(kerncap, reproducer, *REPAIRED, "--expect", "finite").startswith("Result: PASS")


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, (_, kernels) in CAPTURES.items() if kernels])
def test_each_command_of_the_list_captures_that_kernel_alone(kerncap: CommandLine, name: str) -> None:
    program = [sys.executable, SAMPLES / name / "run.py"]
    listed = kerncap("list", "--json", "--", *program)
    assert listed.status == 0, listed.stderr
    found = listed.document["kernels"]
    assert {kernel["name"] for kernel in found} == CAPTURES[name][1]
    for kernel in found:
        words = shlex.split(kernel["command"])
        assert words[:2] == ["kerncap", "capture"]
        out = f"{name}-{kernel['name']}"
        done = kerncap("capture", "--json", "--no-self-check", "-o", out, *words[2:])
        assert done.status == 0, done.stderr
        assert [each["kernel"] for each in done.document["reproducers"]] == [kernel["name"]]
