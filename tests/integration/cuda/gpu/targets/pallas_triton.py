"""Pallas on Triton: two kernels, one of them through functools.partial."""

import functools

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import triton as plt


def add_kernel(x_ref, y_ref, o_ref):
    o_ref[...] = x_ref[...] + y_ref[...]


def scale_kernel(x_ref, o_ref, *, by):
    o_ref[...] = x_ref[...] * by


def call(kernel, *given):
    like = jax.ShapeDtypeStruct(given[0].shape, given[0].dtype)
    return pl.pallas_call(kernel, out_shape=like, compiler_params=plt.CompilerParams())(*given)


@jax.jit
def step(x, y):
    return call(functools.partial(scale_kernel, by=3.0), pl.pallas_call(
        add_kernel, out_shape=jax.ShapeDtypeStruct(x.shape, x.dtype), compiler_params=plt.CompilerParams()
    )(x, y))  # fmt: skip


x = jnp.arange(256, dtype=jnp.float32)
print(float(step(x, x + 1).sum()))
