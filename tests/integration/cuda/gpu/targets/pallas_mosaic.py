"""Pallas on Mosaic GPU: two blocks, each adds its part of two vectors."""

import functools

import jax
import jax.numpy as jnp
from jax import lax
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu as plgpu


@functools.partial(
    plgpu.kernel, out_shape=jax.ShapeDtypeStruct((256,), jnp.float32), grid=(2,), grid_names=("x",)
)
def add_halves(x_ref, y_ref, out_ref):
    part = pl.ds(lax.axis_index("x") * 128, 128)
    out_ref[part] = x_ref[part] + y_ref[part]


x = jnp.arange(256, dtype=jnp.float32)
print(float(jax.jit(add_halves)(x, x + 1).sum()))
