"""JAX: a jitted matrix product."""

import jax
import jax.numpy as jnp


@jax.jit
def product(a, b):
    return a @ b


a = jax.random.normal(jax.random.key(0), (512, 512), dtype=jnp.bfloat16)
b = jax.random.normal(jax.random.key(1), (512, 512), dtype=jnp.bfloat16)
c = product(a, b).block_until_ready()
print(float(jnp.abs(c.astype(jnp.float32)).sum()))
