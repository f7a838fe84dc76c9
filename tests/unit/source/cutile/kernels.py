"""Kernels of cuTile's, as a program may have them."""

import cuda.tile as ct
import numpy as np

GAIN = 3.0
UNUSED = np.zeros(3)


def amplified(tile):
    return tile * GAIN


@ct.kernel
def scaled_add(alpha, x, y, out, TILE: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(TILE,))
    b = ct.load(y, index=(i,), shape=(TILE,))
    ct.store(out, index=(i,), tile=amplified(a) * alpha + b)


class Rows:
    @staticmethod
    @ct.kernel
    def flagged(rows, many, flag):
        i = ct.bid(0)
        a = ct.load(rows[1], index=(i, 0), shape=(16, 16))
        b = ct.load(many[0], index=(i, 0), shape=(16, 16))
        ct.store(
            rows[1], index=(i, 0), tile=a * rows[0] + ct.astype(b, ct.float32) + ct.astype(flag, ct.float32)
        )


def factory(shift):
    @ct.kernel
    def shifted(x):
        ct.store(x, index=(ct.bid(0),), tile=ct.load(x, index=(ct.bid(0),), shape=(16,)) + shift)

    return shifted


shifted = factory(2.0)
