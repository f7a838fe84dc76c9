"""A kernel with a struct, an array and scalars; read by the tests, and compiled by make.py."""

import warp as wp


@wp.struct
class Body:
    mass: float
    at: wp.vec3


@wp.func
def pull(x: float, gain: float):
    return wp.sqrt(x) * gain


@wp.kernel
def advance(gain: float, xs: wp.array(dtype=float), bodies: wp.array(dtype=Body), n: int):
    i = wp.tid()
    if i < n:
        xs[i] = pull(xs[i], gain) + bodies[i].mass
