"""How far two floating-point results may be apart, by dtype."""

from __future__ import annotations

from kerncap.replay.worker.protocol import Difference

# rtol, atol. Source: torch.testing.assert_close; the 8-bit floats get one unit in the last place.
_BY_DTYPE: dict[str, tuple[float, float]] = {
    "float64": (1e-7, 1e-7),
    "float32": (1.3e-6, 1e-5),
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float8_e4m3fn": (2**-3, 2**-9),
    "float8_e4m3fnuz": (2**-3, 2**-10),
    "float8_e5m2": (2**-2, 2**-16),
    "float8_e5m2fnuz": (2**-2, 2**-17),
}
_NOISE_FACTOR = 2.0  # a few runs show less than the widest spread


def view_tolerance(
    dtype: str, noise: float = 0.0, rtol: float | None = None, atol: float | None = None
) -> tuple[float, float]:
    """(rtol, atol) for a view. Integers and booleans are exact but for noise that was measured.

    ``noise`` is the largest difference between baseline replays; ``rtol`` and ``atol`` override the
    dtype's own for floating-point views.
    """
    if dtype.startswith(("float", "bfloat")):
        relative, absolute = _BY_DTYPE.get(dtype, (0.0, 0.0))
        relative = relative if rtol is None else rtol
        absolute = absolute if atol is None else atol
    else:
        relative = absolute = 0.0
    return relative, absolute + _NOISE_FACTOR * noise


def exceeds(stats: Difference) -> bool:
    """Whether a view's statistics lie outside of what they were compared with."""
    return stats.outside > 0
