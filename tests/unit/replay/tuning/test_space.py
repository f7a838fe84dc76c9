"""Search spaces: what a launch offers, what a person makes of it, what is pruned before it is compiled."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kerncap.errors import UsageError
from kerncap.format import Reproducer, schema
from kerncap.replay.outcome import Compiled
from kerncap.replay.tuning import point as points
from kerncap.replay.tuning.constraints import draw, enumerate_legal, parse_constraint
from kerncap.replay.tuning.point import Parameter
from kerncap.replay.tuning.prune import Budget, Pruner, budget_of, over_budget, shared_limit
from kerncap.replay.tuning.samplers import make
from kerncap.replay.tuning.space import LaunchSpace, Wishes, build
from kerncap.replay.tuning.space_file import read
from kerncap.replay.tuning.writeback import config_text
from tests.unit.replay.build import Launch, add, value

MATMUL = """
@triton.jit
def matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, EVEN: tl.constexpr
):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    inner = tl.arange(0, BK)
    total = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(0, K, BK):
        k = start + inner
        a = tl.load(a_ptr + rows[:, None] * K + k[None, :])
        b = tl.load(b_ptr + k[:, None] * N + columns[None, :])
        total += tl.dot(a, b)
    tl.store(c_ptr + rows[:, None] * N + columns[None, :], total)
"""
GRID = 'lambda META: (triton.cdiv(n, META["BLOCK"]),)'


def grid_source(text: str, **bindings: int) -> schema.GridSource:
    values = {name: value(number) for name, number in bindings.items()}
    return schema.GridSource(source=text, bindings=values)


def matmul(tmp_path: Path, **changes: Any) -> Reproducer:
    import numpy as np

    launch = Launch(MATMUL, "matmul", grid=(2, 2, 1), mode="jit")
    for name in ("a_ptr", "b_ptr", "c_ptr"):
        launch.tensor(name, np.zeros((64, 64), np.float16))
    for name in ("M", "N", "K"):
        launch.argument(name, 64)
    launch.constexpr("BM", 32).constexpr("BN", 32).constexpr("BK", 16).constexpr("EVEN", True)
    launch.grid_source = grid_source(
        'lambda m: (triton.cdiv(M, m["BM"]), triton.cdiv(N, m["BN"]))', M=64, N=64
    )
    return Reproducer.open(dataclasses.replace(launch, **changes).seal(tmp_path))


def listed(*blocks: tuple[int, int, int, int]) -> schema.Autotune:
    configs = tuple(
        schema.AutotuneConfig(
            kwargs={"BM": value(m), "BN": value(n), "BK": value(k)},
            options={"num_warps": value(w), "num_stages": value(3)},
            grid=(-(-64 // m), -(-64 // n), 1),
        )
        for m, n, k, w in blocks
    )
    return schema.Autotune(configs=configs, chosen=0, key=("M",))


def values_of(parameters: list[Parameter]) -> dict[str, list[Any]]:
    return {p.name: sorted(p.values, key=str) for p in parameters}


def test_the_list_says_what_is_tuned_and_comes_first(tmp_path: Path) -> None:
    with matmul(tmp_path, autotune=listed((32, 32, 16, 4), (64, 16, 32, 8))) as reproducer:
        space = build([LaunchSpace(reproducer)], Wishes(), compiled=True)
    found = values_of(space.parameters)
    assert {name: set(found[name]) for name in ("BM", "BN", "BK", "num_warps")} == {
        "BM": {32, 64}, "BN": {16, 32}, "BK": {16, 32}, "num_warps": {4, 8},
    }  # fmt: skip
    assert space.pinned["EVEN"] == "not in the @triton.autotune list"
    assert [each["BM"] for each in space.listed] == [32, 64]
    sampler = make("auto", space, space.legal(), 100)
    assert [sampler.ask(), sampler.ask()] == space.listed
    assert (rest := sampler.ask()) is not None and points.key(rest) not in map(points.key, space.listed)


def test_options_of_amd_s_compiler_stand_among_the_arguments_of_a_list(tmp_path: Path) -> None:
    first, second = listed((32, 32, 16, 4), (64, 16, 32, 8)).configs
    given = [
        msgspec.structs.replace(each, kwargs={**each.kwargs, "waves_per_eu": value(waves)})
        for each, waves in ((first, 0), (second, 2))
    ]
    tuned = schema.Autotune(configs=tuple(given), chosen=0, key=("M",))
    device = schema.Device(kind="hip", name="AMD Instinct MI300X", arch="gfx942")
    with matmul(tmp_path, autotune=tuned) as reproducer:
        launch = LaunchSpace(reproducer)
        launch.manifest = msgspec.structs.replace(launch.manifest, device=device)
        space = build([launch], Wishes(), compiled=True)
        config = launch.config(space.listed[1])
    assert set(values_of(space.parameters)["waves_per_eu"]) == {0, 2}
    assert config.options["waves_per_eu"] == 2 and "waves_per_eu" not in config.arguments
    assert config_text(space.listed[1]).startswith(
        'triton.Config({"BM": 64, "BN": 16, "BK": 32, "waves_per_eu": 2}'
    )


def test_without_a_list_block_sizes_and_flags_are_tried(tmp_path: Path) -> None:
    with matmul(tmp_path) as reproducer:
        launch = LaunchSpace(reproducer)
        space = build([launch], Wishes(), compiled=True)
        assert launch.config({"BM": 64, "BN": 16}).grid == (1, 4, 1)
    found = {p.name: p.values for p in space.parameters}
    assert found["BM"][0] == 32 and set(found["BM"]) == {16, 32, 64, 128}
    assert found["EVEN"] == (True, False)
    assert found["num_warps"][0] == 4


def test_a_grid_that_is_numbers_holds_what_it_goes_with(tmp_path: Path) -> None:
    with matmul(tmp_path, grid_source=None) as reproducer:
        space = build([LaunchSpace(reproducer)], Wishes(), compiled=True)
    assert {"BM", "BN"} <= set(space.pinned)
    assert "given as numbers" in space.pinned["BM"]
    assert "BK" in [p.name for p in space.parameters]


def test_a_grid_that_can_t_be_recomputed_is_named(tmp_path: Path) -> None:
    text = grid_source('lambda m: (self.rows // m["BM"], 2)')
    with matmul(tmp_path, grid_source=text) as reproducer:
        space = build([LaunchSpace(reproducer)], Wishes(), compiled=True)
    assert "self" in space.pinned["BM"] and "BN" not in space.pinned


def test_a_grid_that_comes_out_otherwise_is_not_believed(tmp_path: Path) -> None:
    text = grid_source('lambda m: (triton.cdiv(M, m["BM"]), triton.cdiv(N, m["BN"]))', M=640, N=64)
    with matmul(tmp_path, grid_source=text) as reproducer:
        space = build([LaunchSpace(reproducer)], Wishes(), compiled=True)
    assert "captured was (2, 2, 1)" in space.pinned["BM"]


def test_wishes(tmp_path: Path) -> None:
    with matmul(tmp_path) as reproducer:
        launch = LaunchSpace(reproducer)
        wishes = Wishes(
            pins={"EVEN": True, "num_warps": 8}, bounds={"BM": (64, 256)}, forbids=("BM * BN > 4096",)
        )
        space = build([launch], wishes, compiled=True)
        found = {p.name: p.values for p in space.parameters}
        assert found["EVEN"] == (True,) and found["num_warps"] == (8,) and set(found["BM"]) == {64, 128, 256}
        legal = space.legal()
        assert legal.points is not None and legal.exact
        assert all(int(p["BM"] or 0) * int(p["BN"] or 0) <= 4096 for p in legal.points)
        both = Wishes(pins={"BM": 64}, bounds={"BM": (32, 64)})
        kept = {p.name: p.values for p in build([launch], both, compiled=True).parameters}
        assert kept["BM"] == (64,), "what is pinned stays so"
        with pytest.raises(UsageError, match="--pin BM=64 is not within --bound BM=128:256"):
            build([launch], Wishes(pins={"BM": 64}, bounds={"BM": (128, 256)}), compiled=True)
        with pytest.raises(UsageError, match="no parameter BX"):
            build([launch], Wishes(pins={"BX": 1}), compiled=True)
        with pytest.raises(UsageError, match="BX is not known"):
            build([launch], Wishes(forbids=("BX > 1",)), compiled=True)


def test_launches_of_two_kernels_are_no_set(tmp_path: Path) -> None:
    with matmul(tmp_path) as one, Reproducer.open(add().seal(tmp_path)) as other:
        with pytest.raises(UsageError, match="different kernels: matmul, add"):
            build([LaunchSpace(one), LaunchSpace(other)], Wishes(), compiled=True)


def test_the_interpreter_has_no_options_to_tune(tmp_path: Path) -> None:
    launch = add()
    launch.grid_source = grid_source(GRID, n=1000)
    with Reproducer.open(launch.seal(tmp_path)) as reproducer:
        space = build([LaunchSpace(reproducer)], Wishes(), compiled=False)
    assert [p.name for p in space.parameters] == ["BLOCK"]
    assert "interpreter" in space.pinned["num_warps"]


def test_enumeration_and_sampling_give_legal_points_only() -> None:
    parameters = [Parameter(name, "argument", tuple(range(1, 9)), 1) for name in "abc"]
    rule = parse_constraint("a * b <= c", ["a", "b", "c"])
    expected = {(a, b, c) for a in range(1, 9) for b in range(1, 9) for c in range(1, 9) if a * b <= c}
    legal = enumerate_legal(parameters, [rule], [{}])
    assert legal.points is not None
    assert {(p["a"], p["b"], p["c"]) for p in legal.points} == expected
    assert enumerate_legal(parameters, [rule], [{}], limit=5).points is None
    drawn = [(p["a"], p["b"], p["c"]) for p in draw(parameters, [rule], [{}], 3)]
    assert len(drawn) == len(set(drawn)) and set(drawn) <= expected and len(drawn) > len(expected) // 2


def test_one_is_not_true() -> None:
    parameters = [Parameter("a", "argument", (1, True), 1)]
    legal = enumerate_legal(parameters, [], [{}])
    assert legal.points is not None and [type(p["a"]) for p in legal.points] == [int, bool]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a +", "not an expression"),
        ("open('x')", "open"),
        ("a.b == 1", "not supported"),
        ("a ** 999", "too large"),
    ],
)
def test_constraints_that_are_none(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        parse_constraint(text, ["a"]).allows({"a": 10**9})


@pytest.mark.parametrize("name", ["space.toml", "space.json"])
def test_a_space_file(tmp_path: Path, name: str) -> None:
    pytest.importorskip("tomllib" if name.endswith("toml") else "json")
    toml = """
        constraints = ["A < B"]
        [parameters]
        A = [1, 2]
        B = {min = 16, max = 64}
        C = 4
        D = {min = 1, max = 7, step = 3}
    """
    parameters = {"A": [1, 2], "B": {"min": 16, "max": 64}, "C": 4, "D": {"min": 1, "max": 7, "step": 3}}
    text = json.dumps({"constraints": ["A < B"], "parameters": parameters})
    path = tmp_path / name
    path.write_text(toml if name.endswith("toml") else text)
    found = read(str(path))
    assert found.parameters == {"A": (1, 2), "B": (16, 32, 64), "C": (4,), "D": (1, 4, 7)}
    assert found.constraints == ("A < B",)


@pytest.mark.parametrize(
    "text",
    ["[]", "{", '{"parameter": {}}', '{"parameters": {"A": []}}', '{"parameters": {"A": {"min": 5}}}',
     '{"parameters": {"A": {"min": 33, "max": 40}}}', '{"parameters": {"A": [[1]]}}', '{"constraints": "A"}'],
)  # fmt: skip
def test_a_space_file_that_is_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "space.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="--space"):
        read(str(path))


@pytest.mark.parametrize(
    ("arguments", "options", "reason"),
    [
        ({"BM": 48}, {}, "a range of 48 is not a power of two"),
        ({"BM": 2048, "BN": 1024}, {}, "a tile of 2048x1024"),
        ({"BK": 8}, {}, "a dot over 8 elements of 2 bytes"),
        ({}, {"num_warps": 3}, "num_warps=3"),
        ({"BM": 256, "BN": 256, "BK": 128}, {"num_warps": 8, "num_stages": 5}, "bytes of shared memory"),
        ({"BM": 512, "BN": 256}, {"num_warps": 2, "num_stages": 1}, "registers per thread"),
        ({"BM": 128, "BN": 128, "BK": 64}, {"num_warps": 8, "num_stages": 3}, None),
    ],
)
def test_what_is_pruned_before_it_is_compiled(
    tmp_path: Path, arguments: dict[str, int], options: dict[str, int], reason: str | None
) -> None:
    with matmul(tmp_path) as reproducer:
        refused = Pruner(reproducer, Budget(True, 232_448)).refuse(arguments, options)
    assert (refused is None) if reason is None else (refused is not None and reason in refused)


def test_the_author_s_own_configurations_are_pruned_for_what_triton_refuses_only(tmp_path: Path) -> None:
    large = {"BM": 256, "BN": 256, "BK": 128}
    with matmul(tmp_path) as reproducer:
        pruner = Pruner(reproducer, Budget(True, 232_448))
        assert pruner.refuse(large, {"num_stages": 5}, listed=True) is None
        assert pruner.refuse({"BM": 48}, {}, listed=True) is not None


def test_for_an_amd_gpu_only_what_triton_refuses_is_pruned(tmp_path: Path) -> None:
    """Its compiler takes a dot of any size, a wavefront has 64 lanes, and tiles need not go through LDS."""
    with matmul(tmp_path) as reproducer:
        pruner = Pruner(reproducer, budget_of("gfx942:sramecc+:xnack-"))
        assert pruner.refuse({"BK": 8}, {}) is None
        assert pruner.refuse({"BM": 256, "BN": 256, "BK": 128}, {"num_warps": 8, "num_stages": 5}) is None
        assert "num_warps=32 is not a power of two up to 16" in (pruner.refuse({}, {"num_warps": 32}) or "")
        assert pruner.refuse({"BM": 48}, {}) is not None
    assert (
        over_budget(Compiled(shared_bytes=65_537), pruner.budget)
        == "65,537 bytes of shared memory, a block has 65,536"
    )


def test_shared_memory_by_architecture() -> None:
    assert shared_limit("sm_90a") == 232_448
    assert shared_limit("gfx950") == 163_840 and shared_limit("gfx1100") is None
    assert shared_limit("sm_999") is None and shared_limit(None) is None


def test_the_list_is_tried_whole_where_its_grids_were_stored(tmp_path: Path) -> None:
    text = grid_source('lambda m: (self.rows // m["BM"], 2)')
    tuned = listed((32, 32, 16, 4), (64, 16, 32, 8))
    with matmul(tmp_path, grid_source=text, autotune=tuned) as reproducer:
        launch = LaunchSpace(reproducer)
        space = build([launch], Wishes(), compiled=True)
        assert "BM" in space.pinned and [each["BM"] for each in space.listed] == [32, 64]
        assert launch.config(space.listed[1]).grid == (1, 4, 1)
