"""Runs of set bits, held against a loop over them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kerncap.replay import bitmap


@given(st.data(), st.integers(0, 12))
def test_a_stretch_is_taken_whole_if_any_bit_of_it_is_touched(data: st.DataObject, groups: int) -> None:
    flags = st.lists(st.booleans(), min_size=8 * groups, max_size=8 * groups)
    bits, touched = data.draw(flags), data.draw(flags)
    expected, run = [False] * len(bits), list[int]()
    for at, is_set in enumerate([*bits, False]):
        if is_set:
            run.append(at)
            continue
        for each in run if any(touched[one] for one in run) else ():
            expected[each] = True
        run = []
    found = bitmap.stretches(_packed(bits), _packed(touched))
    assert found.tolist() == _packed(expected).tolist()


def _packed(flags: list[bool]) -> bitmap.Bits:
    return np.packbits(np.array(flags, dtype=np.uint8), bitorder="little")
