"""Other numbers in the `LAUNCHES` of a module."""

from __future__ import annotations

import pytest

from kerncap.api.tune.module_text import edited

HEAD = 'LAUNCHES = [\n    {"kernel": "k", "grid": [1],  # ü\n     "arguments": {"x": "0.x", "BLOCK": 16}'


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("}]\n", '"arguments": {"x": "0.x", "BLOCK": 64}}]\n'),
        (', "options": {}}]\n', ', "options": {"num_warps": 8, }}]\n'),
        (', "options": {"num_stages": 2, "num_warps": 4}}]\n', '{"num_stages": 2, "num_warps": 8}}]\n'),
    ],
)
def test_values_change_and_the_rest_stays(before: str, after: str) -> None:
    found = edited(HEAD + before + "\n# the end\n", [{"BLOCK": 64, "num_warps": 8}])
    assert after in found and '"BLOCK": 64' in found and "# ü" in found and found.endswith("\n# the end\n")
    scope: dict[str, list[dict[str, dict[str, int]]]] = {}
    exec(found, {}, scope)
    [launch] = scope["LAUNCHES"]
    assert launch["arguments"]["BLOCK"] == 64 and launch["options"]["num_warps"] == 8


def test_each_launch_has_its_own_values() -> None:
    one = '{"kernel": "k", "grid": [1], "arguments": {"x": "0.x", "BLOCK": 16}}'
    other = '{"kernel": "k", "arguments": {"BLOCK": 16}, "options": {"num_warps": 4}, "grid": [1]}'
    text = f"LAUNCHES = ({one}, {other},\n  {one})  # BLOCK\n"
    found = edited(text, [{"BLOCK": 32, "num_warps": 2}, {"num_warps": 8}, {"BLOCK": 128}])
    changed = one.replace("{", '{"options": {"num_warps": 2}, ', 1).replace("16", "32")
    expected = f"LAUNCHES = ({changed}, {other.replace('4', '8')},\n  {one.replace('16', '128')})  # BLOCK\n"
    assert found == expected
