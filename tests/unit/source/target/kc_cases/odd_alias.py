import math as m

import triton as tr
import triton.language as tr_l
from triton.language import math as tl

E = tr_l.constexpr(m.e)


@tr.jit
def kernel(x, y, B: tr_l.constexpr):
    at = tr_l.arange(0, B)
    tr_l.store(y + at, tl.exp(tr_l.load(x + at)) + m.pi + E + tr.cdiv(5, 2))


runs = "replay"


def expected(x):
    return x.exp() + math_pi + math_e + 3


math_pi, math_e = m.pi, m.e
