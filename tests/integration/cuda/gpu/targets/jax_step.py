"""JAX: training steps of a small network, with the memory that JAX takes by itself."""

import jax
import jax.numpy as jnp


def loss(weights, x, y):
    for w in weights[:-1]:
        x = jax.nn.gelu(x @ w)
    return jnp.mean((jax.nn.log_softmax(x @ weights[-1]) - y) ** 2)


@jax.jit
def step(weights, x, y):
    value, slopes = jax.value_and_grad(loss)(weights, x, y)
    return value, [w - 0.1 * slope for w, slope in zip(weights, slopes, strict=True)]


keys = jax.random.split(jax.random.key(0), 5)
weights = [jax.random.normal(key, (256, 256)) * 0.05 for key in keys[:3]]
x, y = jax.random.normal(keys[3], (512, 256)), jax.random.normal(keys[4], (512, 256))
for _ in range(3):
    value, weights = step(weights, x, y)
print(float(value))
