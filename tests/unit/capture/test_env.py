"""What the target is started with, and what a manifest keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kerncap import env, log


@pytest.fixture(autouse=True)
def _no_shim(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether this checkout has built one must not matter."""
    monkeypatch.setattr(env, "cuda_shim", lambda: None)
    monkeypatch.setattr(env, "hip_shim", lambda: None)


@pytest.fixture
def shim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    path = tmp_path / "libkerncap_cuda.so"
    monkeypatch.setattr(env, "cuda_shim", lambda: path)
    return str(path)


@pytest.fixture
def hip_shim(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> str:
    path = tmp_path / "libkerncap_hip.so"
    monkeypatch.setattr(env, "hip_shim", lambda: path)
    return str(path)


def test_the_hook_goes_in_front_and_nothing_else_changes() -> None:
    hook = str(env.triton_hook_folder())
    assert (Path(hook) / "sitecustomize.py").is_file()
    before = {"PYTHONPATH": "/a::/b", "HOME": "/h", "LD_PRELOAD": "x.so"}
    after = env.compose_target_environment(before, Path("/s"))
    assert after == {**before, "PYTHONPATH": f"{hook}:/a::/b", "KERNCAP_SESSION": "/s"}
    assert before["PYTHONPATH"] == "/a::/b"


@pytest.mark.parametrize("existing", [{}, {"PYTHONPATH": ""}])
def test_without_a_pythonpath_no_empty_entry_appears(existing: dict[str, str]) -> None:
    """An empty entry would put the working directory on the target's path."""
    composed = env.compose_target_environment(existing, Path("/s"))
    assert composed["PYTHONPATH"] == str(env.triton_hook_folder())


def test_the_shim_is_preloaded_first_and_others_stay(shim: str) -> None:
    composed = env.compose_target_environment({"LD_PRELOAD": "a.so:b.so c.so"}, Path("/s"))
    assert composed["LD_PRELOAD"] == f"{shim}:a.so:b.so c.so"
    assert composed["CUDA_INJECTION64_PATH"] == shim


@pytest.mark.parametrize("existing", [{}, {"LD_PRELOAD": ""}])
def test_without_a_preload_ours_is_alone(shim: str, existing: dict[str, str]) -> None:
    assert env.compose_target_environment(existing, Path("/s"))["LD_PRELOAD"] == shim


def test_composing_twice_is_composing_once(shim: str) -> None:
    once = env.compose_target_environment({"LD_PRELOAD": "a.so", "PYTHONPATH": "/p"}, Path("/s"))
    assert env.compose_target_environment(once, Path("/s")) == once


def test_an_injection_of_the_users_stays_and_is_said(shim: str) -> None:
    current = {"CUDA_INJECTION64_PATH": "/opt/profiler.so"}
    assert env.compose_target_environment(current, Path("/s"))["CUDA_INJECTION64_PATH"] == "/opt/profiler.so"
    [note] = env.shim_notes(current)
    assert "/opt/profiler.so" in note
    assert env.shim_notes({}) == env.shim_notes({"CUDA_INJECTION64_PATH": shim}) == []


@pytest.mark.parametrize("name", ["a folder", "a:b", "$ORIGIN"])
def test_a_path_that_preloading_can_not_hold_is_injected_alone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(env, "cuda_shim", lambda: tmp_path / name / "shim.so")
    composed = env.compose_target_environment({"LD_PRELOAD": "a.so"}, Path("/s"))
    assert composed["LD_PRELOAD"] == "a.so"
    assert composed["CUDA_INJECTION64_PATH"] == str(tmp_path / name / "shim.so")
    assert "LD_PRELOAD" in env.shim_notes({})[0]


def test_a_backend_that_is_left_out_leaves_nothing(shim: str) -> None:
    cuda = env.compose_target_environment({}, Path("/s"), ("cuda",))
    triton = env.compose_target_environment({}, Path("/s"), ("triton",))
    assert set(cuda) == {
        "LD_PRELOAD", "CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "KERNCAP_SESSION"
    }  # fmt: skip
    assert set(triton) == {"PYTHONPATH", "KERNCAP_SESSION"}


def test_the_hip_shim_is_a_tool_of_rocr_and_preloaded(hip_shim: str) -> None:
    current = {"HSA_TOOLS_LIB": "/opt/a.so  /opt/b.so", "LD_PRELOAD": "a.so"}
    composed = env.compose_target_environment(current, Path("/s"), ("hip",))
    assert composed == {
        "HSA_TOOLS_LIB": f"{hip_shim} /opt/a.so  /opt/b.so",
        "LD_PRELOAD": f"{hip_shim}:a.so",
        "KERNCAP_SESSION": "/s",
    }
    assert env.compose_target_environment(composed, Path("/s"), ("hip",)) == composed
    assert env.compose_target_environment({}, Path("/s"), ("hip",))["HSA_TOOLS_LIB"] == hip_shim


def test_both_shims_are_preloaded_and_composing_twice_changes_nothing(shim: str, hip_shim: str) -> None:
    once = env.compose_target_environment({"LD_PRELOAD": "a.so"}, Path("/s"))
    assert once["LD_PRELOAD"] == f"{hip_shim}:{shim}:a.so"
    assert env.compose_target_environment(once, Path("/s")) == once
    assert "HSA_TOOLS_LIB" not in env.compose_target_environment({}, Path("/s"), ("cuda",))


@pytest.mark.parametrize("name", ["a folder", "a:b", "$ORIGIN"])
def test_a_hip_shim_that_can_not_be_named_is_left_out_and_said(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    monkeypatch.setattr(env, "hip_shim", lambda: tmp_path / name / "shim.so")
    current = {"HSA_TOOLS_LIB": "/opt/a.so"}
    composed = env.compose_target_environment(current, Path("/s"), ("hip",))
    assert composed == {**current, "KERNCAP_SESSION": "/s"}
    [note] = env.shim_notes(current)
    assert "HSA_TOOLS_LIB" in note and name in note
    assert env.shim_notes(current, ("cuda", "triton")) == []


def test_a_short_list_of_variables_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    given = {
        "TRITON_INTERPRET": "1",
        "TRITON_CACHE_DIR": "/home/ada/cache",
        "CUDA_VISIBLE_DEVICES": "1",
        "TORCHINDUCTOR_MAX_AUTOTUNE": "1",
        "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True",
        "TORCH_COMPILE_DISABLE": "/x:/home/ada/y",
        "TRITON_DEBUG": "https://hooks.example/T0/B0",  # the name of one, the value of none
        "PTXAS_OPTIONS": "-O1 aB3daB3daB3daB3daB3d",
        "PYTORCH_PASS": "s3cret",
        "TRITON_PAT": "s3cret",
        "TORCH_HUB_TOKEN": "s3cret",
        "TORCH_API_KEY": "s3cret",
        "AWS_SECRET_ACCESS_KEY": "s3cret",
        "HF_TOKEN": "s3cret",
        "MY_TRITON_THING": "no",
        "PATH": "/bin",
    }
    assert env.stored_environment(given) == {
        "CUDA_VISIBLE_DEVICES": "1",
        "TORCH_COMPILE_DISABLE": "/x:~/y",
        "TRITON_INTERPRET": "1",
    }


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("/home/ada/train.py", "~/train.py"),
        ("--path=/home/ada", "--path=~"),
        ("/home/ada/a:/home/ada/b", "~/a:~/b"),
        ("/home/adam/train.py", "/home/adam/train.py"),
        ("train.py", "train.py"),
    ],
)
def test_the_home_directory_is_hidden(monkeypatch: pytest.MonkeyPatch, text: str, hidden: str) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    assert env.hide_home(text) == hidden


def test_a_home_at_the_root_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/")
    assert env.hide_home("/usr/bin/python") == "/usr/bin/python"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (150 * 1024, "150 KiB"),
        (1288490189, "1.2 GiB"),
        (1 << 41, "2.0 TiB"),
    ],
)
def test_sizes_for_people(size: int, text: str) -> None:
    assert log.size(size) == text


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [(5, "5 ns"), (12_345_678, "12 ms"), (1_500_000, "1.5 ms"), (90_000_000_000, "90.0 s")],
)
def test_times_for_people(nanoseconds: int, text: str) -> None:
    assert log.duration(nanoseconds) == text


def test_names_from_a_target_stay_on_one_line() -> None:
    assert log.one_line("a\nb\x1b[31mc") == "a b\\x1b[31mc"
    assert len(log.one_line("x" * 5000)) == 600
