"""Other values of the numbers that a launch is passed."""

from __future__ import annotations

import pytest

from kerncap.format.schema import Argument, FloatValue, IntValue, Manifest
from kerncap.replay.other_scalars import other_integers, smaller_floats


class Passed:
    """A manifest of arguments n, m, …"""

    def __init__(self, *values: FloatValue | IntValue) -> None:
        self.arguments = tuple(
            Argument(name=name, value=value, role="runtime")
            for name, value in zip("nm", values, strict=False)
        )


@pytest.mark.parametrize(
    ("old", "new"),
    [(1234, 925), (-100, -75), (16, 0), (0, 16), (64, 48), (3, 2), (2, 3), (-1, 0), (1 << 62, 3 << 60)],
)
def test_an_integer_stays_what_triton_compiles_for(old: int, new: int) -> None:
    manifest: Manifest = Passed(IntValue(value=str(old)))  # type: ignore[assignment]
    assert other_integers(manifest, frozenset({"n"})) == {"n": str(new)}
    assert other_integers(manifest, frozenset()) == {}


@pytest.mark.parametrize(("old", "new"), [(2.0, 1.5), (0.0, 0.0625), (0.0001, 0.01), (-0.5, -0.375)])
def test_a_float_stays_between_zero_and_one(old: float, new: float) -> None:
    manifest: Manifest = Passed(FloatValue(value=old.hex()))  # type: ignore[assignment]
    assert float.fromhex(smaller_floats(manifest)["n"]) == pytest.approx(new)


def test_no_two_numbers_stay_equal_or_opposite() -> None:
    for first, second in ((1.0, 1.0), (-1.0, 1.0), (0.0, 0.0), (1e-5, 1e-5)):
        manifest: Manifest = Passed(*(FloatValue(value=one.hex()) for one in (first, second)))  # type: ignore[assignment]
        n, m = map(float.fromhex, smaller_floats(manifest).values())
        assert abs(n) != abs(m)
    manifest = Passed(IntValue(value="48"), IntValue(value="48"))  # type: ignore[assignment]
    assert other_integers(manifest, frozenset({"n", "m"})) == {"n": "32", "m": "32"}
