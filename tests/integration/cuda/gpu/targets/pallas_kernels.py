"""JAX: two kernels of Pallas, one compiled through Triton and one by Mosaic GPU."""

import jax
import jax.numpy as jnp
from jax.experimental import pallas as pl
from jax.experimental.pallas import mosaic_gpu

BLOCK = 256


def scaled_sum(x_ref, y_ref, out_ref):
    out_ref[...] = x_ref[...] * 2 + y_ref[...]


def scaled_difference(x_ref, y_ref, out_ref, x_block, y_block, out_block, arrived):
    here = pl.ds(jax.lax.axis_index("i") * BLOCK, BLOCK)
    mosaic_gpu.copy_gmem_to_smem(x_ref.at[here], x_block, arrived)
    mosaic_gpu.copy_gmem_to_smem(y_ref.at[here], y_block, arrived)
    mosaic_gpu.barrier_wait(arrived)
    out_block[...] = x_block[...] * 2 - y_block[...]
    mosaic_gpu.commit_smem()
    mosaic_gpu.copy_smem_to_gmem(out_block, out_ref.at[here])
    mosaic_gpu.wait_smem_to_gmem(0)


@jax.jit
def through_triton(x, y):
    block = pl.BlockSpec((BLOCK,), lambda i: (i,))
    out = jax.ShapeDtypeStruct(x.shape, x.dtype)
    call = pl.pallas_call(
        scaled_sum, out_shape=out, grid=(x.size // BLOCK,), in_specs=[block, block], out_specs=block
    )
    return call(x, y)


@jax.jit
def by_mosaic(x, y):
    block = mosaic_gpu.SMEM((BLOCK,), x.dtype)
    call = mosaic_gpu.kernel(
        scaled_difference, out_type=jax.ShapeDtypeStruct(x.shape, x.dtype), grid=(x.size // BLOCK,),
        grid_names=("i",), scratch_types=[block, block, block, mosaic_gpu.Barrier(num_arrivals=2)],
    )  # fmt: skip
    return call(x, y)


x = jnp.arange(16 * BLOCK, dtype=jnp.float32)
y = jnp.ones_like(x)
print("triton", bool((through_triton(x, y) == x * 2 + 1).all()))
print("mosaic", bool((by_mosaic(x, y) == x * 2 - 1).all()))
