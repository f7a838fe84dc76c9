"""Unchanged programs on CPU tensors: what is asked of the analysis, and what the program itself sees."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from kerncap.api.sanitize.program import SanitizeResult, sanitize_command
from kerncap.sanitizer.findings import LaunchReport, Unproven
from kerncap.sanitizer.launch import Launch
from kerncap.sanitizer.options import Options
from tests.integration.sanitizer.live.conftest import Analysed, analysed, of, run_script

PROGRAM = """
os.environ["TRITON_INTERPRET"] = "1"  # as many scripts do that know of no other way without a GPU

@triton.jit
def fill(index, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(index + o, n - 1 - o, mask=o < n)

@triton.jit
def gather(table, index, out, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    i = tl.load(index + o, mask=o < n, other=0)
    tl.store(out + o, tl.load(table + i, mask=o < n), mask=o < n)

@triton.jit
def scale(x, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(x + o, tl.load(x + o, mask=o < n) * 2, mask=o < n)

@triton.autotune([triton.Config({"B": b}, num_warps=w) for b, w in ((16, 1), (32, 2), (64, 4))], key=["n"])
@triton.heuristics({"EVEN": lambda a: a["n"] % a["B"] == 0})
@triton.jit
def tuned(x, n, B: tl.constexpr, EVEN: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    if EVEN:
        tl.store(x + o, tl.load(x + o) + 1)
    else:
        tl.store(x + o, tl.load(x + o, mask=o < n) + 1, mask=o < n)

@triton.jit
def ahead(x, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(x + o, tl.load(x + o) - 1)

assert triton.runtime.driver.active.get_active_torch_device().type == "cpu"
table, index, out = torch.arange(100.), torch.empty(100, dtype=torch.int32), torch.empty(100)
fill[(4,)](index, 100, B=32)
gather[lambda m: (triton.cdiv(m["n"], m["B"]),)](table, index, out, 100, B=32)
assert torch.equal(out, table.flip(0)), out  # the second launch saw what the first stored

gather[(4,)](table, index, out, 100, B=32)
index.zero_()
gather[(4,)](table, index, out, 100, B=32)
assert torch.equal(out, table[torch.zeros(100, dtype=torch.long)])

x = torch.ones(64)
for _ in range(100):
    scale[(1,)](x, 64, B=64)
    x /= 2
assert torch.equal(x, torch.ones(64))
scale[(0,)](x, 64, B=64)  # nothing runs
scale[(1,)](x[::2], 32, B=64)  # another window on the same storage
assert x[:32].eq(2).all() and x[32:].eq(1).all()

y = torch.zeros(64)
tuned[lambda m: (triton.cdiv(64, m["B"]),)](y, 64)
tuned[lambda m: (triton.cdiv(64, m["B"]),)](y, 64)
assert y.eq(2).all(), y

compiled = ahead.warmup(y, 64, grid=(1,))
compiled[(1, 1, 1)](y, 64)
assert y.eq(1).all(), y

kept = scale[(1,)](y, 64, B=64)  # as libraries keep what a first launch returned
kept[(2, 1, 1)](y, 32, 32)
assert y[:32].eq(4).all() and y[32:].eq(2).all(), y

print("the program's own output", flush=True)
sys.exit(3)
"""


@dataclass(frozen=True)
class Ran:
    result: SanitizeResult
    engine: Analysed


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    engine = analysed(gather=["index"], fill=["index"])
    return Ran(run_script(tmp_path_factory.mktemp("program"), PROGRAM, engine), engine)


def test_the_program_sees_right_data_and_keeps_its_status(ran: Ran) -> None:
    assert ran.result.target_status == 3  # an assertion that failed would have made it 1


def test_what_changes_in_contents_that_were_looked_at_is_analysed_anew(ran: Ran) -> None:
    assert ran.engine.count("gather") == 2  # three launches: two of them had equal indices
    assert [report.repeats for report in of(ran.result, "gather")] == [1, 0]


def test_equal_launches_are_analysed_once(ran: Ran) -> None:
    first, empty, strided, again = of(ran.result, "scale")
    assert first.repeats == 100  # its contents changed each time, and nobody had looked at them
    assert (empty.grid, empty.notes) == ((0, 1, 1), ("the grid is empty: nothing runs",))
    assert strided.repeats == 0
    assert (again.grid, again.configuration["B"]) == ((2, 1, 1), "64")


def test_every_configuration_is_looked_at_and_one_is_carried_out(ran: Ran) -> None:
    reports = of(ran.result, "tuned")
    assert [report.configuration["B"] for report in reports] == ["32", "64", "16"]
    assert [report.grid for report in reports] == [(2, 1, 1), (1, 1, 1), (4, 1, 1)]
    assert {report.configuration["EVEN"] for report in reports} == {"True"}  # heuristics were evaluated
    assert [report.label for report in reports] == [f"configuration {n} of 3" for n in (2, 3, 1)]
    assert [report.repeats for report in reports] == [1, 1, 1]


def test_a_kernel_compiled_ahead_of_time(ran: Ran) -> None:
    assert len(of(ran.result, "ahead")) == 1


def test_fresh_memory_is_known_as_unwritten_until_a_kernel_writes_it(ran: Ran) -> None:
    assert of(ran.result, "fill")[0].notes == ("index: 0 of 400 bytes written",)
    assert of(ran.result, "gather")[0].notes == ("index: 400 of 400 bytes written",)


def test_a_launch_knows_its_source_and_its_line(ran: Ran) -> None:
    launch = next(launch for launch in ran.engine.launches if launch.kernel == "gather")
    file, line, function = launch.python_stack[-1]
    text = launch.sources[file]
    assert "gather[lambda" in text.splitlines()[line - 1] and function == "<module>"
    assert [argument.name for argument in launch.arguments] == ["table", "index", "out", "n"]
    assert launch.target == "cuda:90" and launch.configuration["B"] == "32"


@pytest.mark.long
def test_a_target_that_fails_fails_as_it_would(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    looked = analysed()

    def engine(launch: Launch, options: Options) -> LaunchReport:
        if launch.kernel == "puzzling":
            raise ZeroDivisionError("in the analysis")
        return looked(launch, options)

    result = run_script(
        tmp_path,
        """
        @triton.jit
        def opaque(x, B: tl.constexpr):
            o = tl.arange(0, B)
            r = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [o], tl.int32, is_pure=True, pack=1)
            tl.store(x + o, r)

        @triton.jit
        def broken(x, B: tl.constexpr):
            tl.store(x + tl.arange(0, B), no_such_name)

        @triton.jit
        def puzzling(x, B: tl.constexpr):
            tl.store(x + tl.arange(0, B), 1)

        x = torch.zeros(16, dtype=torch.int32)
        puzzling[(1,)](x, B=16)
        assert x.eq(1).all()
        opaque[(1,)](x, B=16)
        try:
            broken[(1,)](x, B=16)
        except triton.CompilationError:
            print("did not compile")
        try:
            broken[(1,)](x, x, x, x)
        except TypeError as error:
            print("did not fit")
        raise SystemError("the program's own")
        """,
        engine,
        fresh=False,
    )
    out, err = capfd.readouterr()
    assert result.target_status == 1
    assert "kerncap sanitize looked at opaque, but can't carry it out on the CPU" in err
    assert "did not compile" in out and "did not fit" in out
    assert err.rstrip().endswith("SystemError: the program's own")
    puzzling, opaque = result.reports
    assert puzzling.notes == ("could not be sanitised: ZeroDivisionError: in the analysis",)
    assert opaque.kernel == "opaque"  # looked at all the same
    assert any("could not be carried out" in note for note in result.notes)


@pytest.mark.long
def test_children_are_seen_too(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        """
        import multiprocessing

        @triton.jit
        def add(x, B: tl.constexpr):
            o = tl.arange(0, B)
            tl.store(x + o, tl.load(x + o) + 1)

        def work(x, block):
            add[(1,)](x, B=block)

        if __name__ == "__main__":
            x = torch.zeros(64).share_memory_()
            add[(1,)](x, B=2)
            pid = os.fork()
            if pid == 0:
                add[(1,)](x, B=4)
                os._exit(0)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            add[(1,)](x, B=2)
            process = multiprocessing.get_context("spawn").Process(target=work, args=(x, 8))
            process.start()
            process.join()
            assert x[:9].tolist() == [4, 4, 2, 2, 1, 1, 1, 1, 0], x
        """,
        analysed(),
    )
    assert result.target_status == 0
    assert sorted((report.configuration["B"], report.repeats) for report in of(result, "add")) == [
        ("2", 1),
        ("4", 0),
        ("8", 0),
    ]


def test_python_is_the_one_beside_kerncap_if_the_paths_has_no_torch(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec "{os.path.realpath(sys.executable)}" -S "$@"\n')
    python.chmod(0o755)
    for name, runs_ours in (("python", True), (str(python), False), ("sh", False)):
        words = (
            [name, "-c", "import sys; print(sys.flags.no_site)"] if name != "sh" else ["sh", "-c", "exit 0"]
        )
        environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
        environment.pop("PYTHONPATH", None)
        result = sanitize_command(words, environment=environment, engine=analysed())
        out, _ = capfd.readouterr()
        assert result.target_status == 0
        assert any("has no torch" in note for note in result.notes) == runs_ours
        assert out.strip() == {"python": "0", "sh": ""}.get(name, "1")


def test_a_program_that_launches_nothing_says_so(tmp_path: Path) -> None:
    result = run_script(tmp_path, "import os; os.kill(os.getpid(), 9)", analysed(), prelude="")
    assert (result.target_status, result.reports) == (137, ())
    assert "launched no Triton kernel" in result.notes[0]


def test_a_launch_over_the_limit_of_memory_is_not_carried_out(tmp_path: Path) -> None:
    result = run_script(
        tmp_path,
        """
        @triton.jit
        def add(x, B: tl.constexpr):
            o = tl.program_id(0) * B + tl.arange(0, B)
            tl.store(x + o, tl.load(x + o) + 1)

        x = torch.zeros(1 << 20)
        add[(1 << 10,)](x, B=1 << 10)
        assert not x.any()
        """,
        analysis=Options(max_memory_bytes=1 << 20),
    )
    assert (result.target_status, result.program.needs_bytes) == (0, 2 * (4 << 20))
    assert any("needs at least" in note and "--max-memory is 1.0 MiB" in note for note in result.notes)


@pytest.mark.long
def test_nothing_is_judged_by_what_could_not_be_carried_out(tmp_path: Path) -> None:
    """Inline assembly writes the indices; what memory holds in their place says nothing."""
    result = run_script(
        tmp_path,
        """
        @triton.jit
        def by_assembly(index, B: tl.constexpr):
            o = tl.arange(0, B)
            i = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [o], tl.int32, is_pure=True, pack=1)
            tl.store(index + o, i)

        @triton.jit
        def gather(table, index, out, B: tl.constexpr):
            o = tl.arange(0, B)
            tl.store(out + o, tl.load(table + tl.load(index + o)))

        index = torch.full((16,), 1000, dtype=torch.int32)
        by_assembly[(1,)](index, B=16)
        gather[(1,)](torch.zeros(16), index, torch.zeros(16), B=16)
        """,
        None,
        fresh=False,
    )
    assert result.target_status == 0
    by_assembly, gather = result.reports
    assert not gather.findings
    assert any(isinstance(one.verdict, Unproven) for one in gather.settled if one.check == "oob")
