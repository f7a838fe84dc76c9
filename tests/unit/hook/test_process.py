"""The target is left as it was: imports, children, exceptions, exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kerncap.format.records import RecordKind

from .conftest import ADD, HOOK, Run

CALL = "x = torch.ones(8)\nadd[(1,)](x, x, x, 8, BLOCK=8)\n"


@pytest.mark.long
def test_fork_counts_from_zero_in_its_own_folder(run: Run) -> None:
    script = (
        ADD + CALL + "import os\npid = os.fork()\n" + CALL + "if pid: os.waitpid(pid, 0)\nprint(x[0].item())"
    )
    outcome = run(script, fresh=True)
    assert outcome.status == 0 and outcome.stdout == "2.0\n2.0\n"
    parent, child = sorted(
        outcome.processes, key=lambda p: p.all(RecordKind.PROCESS)[0]["parent_folder"] or ""
    )
    described = child.all(RecordKind.PROCESS)[0]
    assert described["parent_folder"] == parent.folder.name and child.folder.name.endswith("-1")
    for process in (parent, child):
        assert [launch["ordinal"] for launch in process.launches] == [0] and process.all(RecordKind.END)
    assert parent.counts("__main__.add")["launches"] == 2 and child.counts("__main__.add")["launches"] == 1


@pytest.mark.long
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_multiprocessing_children_are_seen_to_their_end(run: Run, method: str) -> None:
    script = (
        ADD + "import multiprocessing\ndef work(k):\n    x = torch.ones(8) * k\n"
        "    for _ in range(3): add[(1,)](x, x, x, 8, BLOCK=8)\n"
        "if __name__ == '__main__':\n    torch.set_num_threads(1)\n"
        f"    context = multiprocessing.get_context('{method}')\n"
        "    child = context.Process(target=work, args=(2,))\n"
        "    child.start(); child.join()\n    print(child.exitcode)"
    )
    outcome = run(script, fresh=True)
    assert outcome.stdout == "0\n", outcome.stderr
    child = outcome.only
    assert len(child.launches) == 1 and child.all(RecordKind.END)
    (counts,) = child.all(RecordKind.COUNTS)[-1]["kernels"].values()
    assert counts["launches"] == 3


@pytest.mark.long
def test_children_of_their_own_session_and_after_exec(run: Run) -> None:
    script = (
        "import os, subprocess, sys\nif len(sys.argv) == 1:\n"
        "    subprocess.run([sys.executable, 'target.py', 'child'], start_new_session=True, check=True)\n"
        "    os.execv(sys.executable, [sys.executable, 'target.py', 'exec'])\n" + ADD + CALL
    )
    outcome = run(script, fresh=True)
    assert outcome.status == 0
    assert sorted(p.all(RecordKind.PROCESS)[0]["argv"][-1] for p in outcome.processes) == ["child", "exec"]


@pytest.mark.long
def test_python_dash_m(run: Run, tmp_path: Path) -> None:
    package = tmp_path / "pack"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "kernels.py").write_text(ADD)
    (package / "__main__.py").write_text("import torch\nfrom .kernels import add\n" + CALL)
    process = run("", arguments=["-m", "pack"]).only
    assert process.launches[0]["kernel"]["qualified_name"] == "pack.kernels.add"
    assert process.launches[0]["kernel"]["file"] == str(package / "kernels.py")


@pytest.mark.long
def test_another_sitecustomize_runs_as_if_ours_were_not_there(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("import sys\nsys.seen = (__name__, __file__)\n")
    script = (
        "import sys, sitecustomize\n"
        "print(sys.seen[0], sys.seen[1] == sitecustomize.__file__, len(sys.path))\n"
        "print(sitecustomize is sys.modules['sitecustomize'])\n" + ADD + CALL
    )
    environment = {"PYTHONPATH": str(other)}
    plain = run(script, environment=environment, hooked=False, fresh=True)
    outcome = run(script, environment=environment, fresh=True)
    assert outcome.stdout == plain.stdout and outcome.stdout.startswith("sitecustomize True")
    assert outcome.stderr == plain.stderr == ""
    assert outcome.only.launches


def test_a_broken_sitecustomize_says_what_it_would_have_said(run: Run, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    environment = {"PYTHONPATH": str(other)}
    plain = run("print(1)", environment=environment, hooked=False, fresh=True)
    outcome = run("print(1)", environment=environment, fresh=True)
    assert "ValueError: theirs" in outcome.stderr
    assert (outcome.stdout, outcome.stderr) == (plain.stdout, plain.stderr)


def test_without_another_there_is_none(run: Run) -> None:
    script = (
        "import os, sys\n"
        "try:\n    import sitecustomize\n    print('found')\n"
        "except ImportError as error:\n    print(error.name)\n"
        "print(any('shims' in entry for entry in sys.path), 'shims' in os.environ.get('PYTHONPATH', ''))\n"
    )
    plain = run(script, hooked=False, fresh=True).stdout  # some distributions have one of their own
    assert plain in ("sitecustomize\nFalse False\n", "found\nFalse False\n")
    assert run(script, fresh=True).stdout == plain.replace("False False", "False True")


def test_nothing_happens_without_a_session(run: Run, tmp_path: Path) -> None:
    script = "import sys\nprint('kerncap_triton' in sys.modules, len(sys.meta_path))"
    env = {k: v for k, v in os.environ.items() if k != "KERNCAP_SESSION"}
    for session in (None, str(tmp_path / "gone.json")):
        command_env = {**env, "PYTHONPATH": str(HOOK), **({"KERNCAP_SESSION": session} if session else {})}
        done = subprocess.run([sys.executable, "-c", script], env=command_env, capture_output=True, text=True)
        assert done.stdout.startswith("False") and done.stderr == ""


def test_a_damaged_session_harms_nothing(run: Run, tmp_path: Path) -> None:
    (tmp_path / "session.json").write_text("{")
    script = ADD + CALL + "print(x[0].item())"
    damaged = {"PYTHONPATH": str(HOOK), "KERNCAP_SESSION": str(tmp_path / "session.json")}
    plain, done = (run(script, environment=given, hooked=False) for given in ({}, damaged))
    assert (done.status, done.stdout, done.stderr) == (0, plain.stdout, plain.stderr)


def test_a_session_folder_that_vanishes_harms_nothing(run: Run) -> None:
    outcome = run(ADD + "import os, shutil; shutil.rmtree('session')\n" + CALL * 3 + "print(x[0].item())")
    assert (outcome.status, outcome.stdout, outcome.stderr) == (0, "2.0\n", "")


def test_nothing_is_imported_that_the_target_did_not_import(run: Run) -> None:
    script = "import sys, json\nimport triton\nprint(sorted(n for n in sys.modules if n.startswith('torch')))"
    assert run(script, fresh=True).stdout == run(script, hooked=False, fresh=True).stdout
    script = "import sys\nprint('ctypes' in sys.modules, 'json' in sys.modules, 'inspect' in sys.modules)"
    assert run(script, fresh=True).stdout == "False False False\n"


def test_the_targets_exception_is_the_same_object(run: Run) -> None:
    script = ADD + (
        "class Mine(Exception): pass\nerror = Mine('theirs')\n"
        "def grid(meta): raise error\nx = torch.ones(8)\n"
        "for _ in range(2):\n    try:\n        add[grid](x, x, x, 8, BLOCK=8)\n"
        "    except BaseException as caught: print(caught is error, caught.__context__)\n"
        "try:\n    add[(1,)](x, x)\nexcept TypeError as caught: print(caught)\n"
    )
    plain = run(script, hooked=False)
    outcome = run(script)
    assert (outcome.stdout, outcome.stderr) == (plain.stdout, plain.stderr)
    assert "can't be evaluated: Mine: theirs" in outcome.only.failures[0]


@pytest.mark.long
def test_status_and_output_pass_through(run: Run) -> None:
    outcome = run(
        ADD + CALL + "import sys\nprint('out'); print('err', file=sys.stderr); sys.exit(7)", fresh=True
    )
    assert (outcome.status, outcome.stdout, outcome.stderr) == (7, "out\n", "err\n")
    assert outcome.only.all(RecordKind.END)


@pytest.mark.long
def test_lazy_and_unused_lookups(run: Run) -> None:
    script = (
        "import importlib.util, sys\n"
        "spec = importlib.util.find_spec('triton.runtime.jit')\n"
        "import inspect\nprint(type(spec.loader).__name__, spec.origin.endswith('jit.py'))\n"
        + ADD
        + CALL
        + "import triton.runtime.jit as jit\n"
        "print(type(jit.__loader__).__name__, 'exec_module' in vars(jit.__loader__))\n"
        "print(len(inspect.getsource(jit)) > 1000)"
    )
    outcome = run(script, fresh=True)
    assert outcome.stdout == "SourceFileLoader True\nSourceFileLoader False\nTrue\n", outcome.stderr
    assert outcome.only.launches


def test_warmup_and_kernels_that_go_away(run: Run) -> None:
    script = ADD + (
        "import gc\ngc.freeze()\nx = torch.ones(8)\n"
        "def fresh():\n    @triton.jit\n    def inner(p): tl.store(p, 1.0)\n    return inner\n"
        "for _ in range(50):\n    fresh()[(1,)](x); gc.collect()\n"
        "add.warmup(x, x, x, 8, BLOCK=8, grid=(1,))\n" + CALL
    )
    process = run(script, kernel="inner", launch=[40, 41]).only
    assert [launch["ordinal"] for launch in process.launches] == [40]
    assert process.counts("__main__.fresh.<locals>.inner")["launches"] == 50
    assert process.counts("__main__.add")["launches"] == 1


def test_threads_share_one_count(run: Run) -> None:
    script = ADD + (
        "import threading\n"
        "def work(x):\n    for _ in range(5): add[(1,)](x, x, x, 0, BLOCK=8)\n"
        "x = torch.ones(8); work(x)\n"
        "threads = [threading.Thread(target=work, args=(x,)) for _ in range(3)]\n"
        "for t in threads:\n    t.start(); t.join()\n"
    )
    process = run(script, kernel="add", launch=[0, 100]).only
    assert [launch["ordinal"] for launch in process.launches] == list(range(20))
    assert [complete["launch"] for complete in process.completes] == list(range(20))


@pytest.mark.long
def test_dynamo_does_not_trace_into_the_hook(run: Run) -> None:
    script = (
        ADD
        + CALL
        + (
            "import sys, torch._dynamo\nours = sys.modules['kerncap_triton.run_hook']\n"
            "functions = (ours.observe, ours.consider, ours.RunHook.__get__)\n"
            "print([torch._dynamo.trace_rules.check(f) for f in functions])\n"
            "def mine(): pass\nprint(torch._dynamo.trace_rules.check(mine))"
        )
    )
    assert run(script).stdout == "[True, True, True]\nFalse\n"


def test_markers_tell_how_far_a_process_came(run: Run, tmp_path: Path) -> None:
    def markers() -> list[str]:
        return sorted(path.name.split("-")[0] for path in (tmp_path / "session").glob("*-*"))

    run("import sys", fresh=True)
    assert markers() == ["python"]
    run("import triton")
    assert markers() == ["python", "triton"]
