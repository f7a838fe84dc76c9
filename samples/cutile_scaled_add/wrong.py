"""What was cut out of run.py, with a gain that is a thousandth too large."""

import cuda.tile as ct

GAIN = 1.25125


def amplified(tile):
    return tile * GAIN


@ct.kernel
def scaled_add(alpha, x, y, out, tile: ct.Constant[int]):
    i = ct.bid(0)
    a = ct.load(x, index=(i,), shape=(tile,))
    b = ct.load(y, index=(i,), shape=(tile,))
    ct.store(out, index=(i,), tile=amplified(a) * alpha + b)
