"""Every situation of `target/kc_cases`: collected, assembled, then used where the package is not."""

from __future__ import annotations

import pytest

from .conftest import MODES, Cases, all_cases

KEYS = [f"{mode}/{name}" for mode in MODES for name in all_cases()]


@pytest.mark.parametrize("key", KEYS)
def test_nothing_is_missing(cases: Cases, key: str) -> None:
    assert cases.assembled[key].missing == ()


@pytest.mark.parametrize("key", KEYS)
def test_module_gives_the_same_result_in_the_interpreter(cases: Cases, key: str) -> None:
    test = cases.graphs[key]["test"]
    if not test["runs"]:
        assert cases.interpreted[key] is None, "the module did not even import"
        return
    assert cases.interpreted[key] == pytest.approx(test["expected"], rel=1e-6)
    if key in cases.target_results:
        assert cases.interpreted[key] == cases.target_results[key]


@pytest.mark.parametrize("key", KEYS)
def test_module_compiles_for_a_gpu(cases: Cases, key: str) -> None:
    if cases.graphs[key]["test"]["compiles"]:
        assert cases.compiled[key] is True, cases.compiled[key]
    else:
        assert "Unsupported function" in cases.compiled[key]


# defaults: see there; edited: the interpreter's run has only the new file, the JIT kept the text
@pytest.mark.parametrize("name", [name for name in all_cases() if name not in ("defaults", "edited")])
def test_both_modes_find_the_same(cases: Cases, name: str) -> None:
    def body(mode: str) -> str:
        text = cases.assembled[f"{mode}/{name}"].text
        return "\n".join(line for line in text.splitlines() if not line.startswith("# "))

    assert body("interpreter") == body("jit")


@pytest.mark.parametrize("key", KEYS)
def test_origins_point_at_the_original_lines(cases: Cases, key: str) -> None:
    made, graph = cases.assembled[key], cases.graphs[key]
    lines = made.text.splitlines()
    assert [origin.name for origin in made.origins][-1] == made.entry
    for origin in made.origins:
        ours = lines[origin.line - 1 : origin.line - 1 + origin.lines]
        theirs = graph["files"][origin.original_file].splitlines()[origin.original_line - 1 :]
        if key.endswith("/edited") and graph["files"][origin.original_file].startswith("# somebody"):
            continue  # the copy shows the file as it is now
        assert len(theirs) >= len(ours)
        if " def " in f" {ours[0]}":
            assert theirs[0].lstrip().startswith("def ")
        assert ours[-1].split()[0] == theirs[len(ours) - 1].split()[0]
