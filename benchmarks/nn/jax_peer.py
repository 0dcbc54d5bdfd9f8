"""JAX: one function of a step, compiled by `jax.jit`, with Adam written out. The argument is the name of the workload."""

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.nn.workload import WORKLOADS, Workload

BETA1, BETA2, EPSILON, RATE = 0.9, 0.999, 1e-7, 1e-3


def keep_to_cores() -> None:
    """XLA has a thread for every core that the process may use, whatever the variables for the BLAS say."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[: int(os.environ["OMP_NUM_THREADS"])])


def parameters(workload: Workload) -> list[list[Any]]:
    """Return weights and biases of every layer that has some, Glorot uniform."""
    generator = np.random.default_rng(0)

    def weights(*shape: int) -> Any:
        limit = (6 / (np.prod(shape[:-1]) + shape[-1])) ** 0.5
        return generator.uniform(-limit, limit, shape).astype(np.float32)

    made: list[list[Any]] = []
    *space, features = workload.sample
    for kind, size in workload.layers:
        if kind == "pool":
            space = [axis // size for axis in space]
            continue
        if kind == "flatten":
            features *= space[0] * space[1]
            continue
        if kind == "conv":
            made.append([weights(3, 3, features, size), np.zeros(size, np.float32)])
        elif kind == "lstm":
            made.append([weights(features, 4 * size), weights(size, 4 * size), np.zeros(4 * size, np.float32)])
        else:
            made.append([weights(features, size), np.zeros(size, np.float32)])
        features = size
    return made


def scores(workload: Workload, layers: list[list[Any]], x: Any) -> Any:
    """Return what stands before the softmax."""
    import jax
    import jax.numpy as jnp

    activation = {"tanh": jnp.tanh, "relu": jax.nn.relu}[workload.activation]
    weights = iter(layers)

    def lstm(x: Any, to_gates: Any, back: Any, bias: Any) -> Any:
        def step(carry: tuple[Any, Any], row: Any) -> tuple[tuple[Any, Any], None]:
            state, cell = carry
            enter, forget, candidate, leave = jnp.split(row + state @ back, 4, axis=1)
            cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
            return (jax.nn.sigmoid(leave) * jnp.tanh(cell), cell), None

        zeros = jnp.zeros((x.shape[0], back.shape[0]), x.dtype)
        (state, _), _ = jax.lax.scan(step, (zeros, zeros), (x @ to_gates + bias).swapaxes(0, 1))
        return state

    for place, (kind, size) in enumerate(workload.layers):
        if kind == "pool":
            window = (1, size, size, 1)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        elif kind == "flatten":
            x = x.reshape(len(x), -1)
        elif kind == "lstm":
            x = lstm(x, *next(weights))
        else:
            kernel, bias = next(weights)
            if kind == "conv":
                x = jax.lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")) + bias
            else:
                x = x @ kernel + bias
            if place < len(workload.layers) - 1:
                x = activation(x)
    return x


def prepare(argument: str) -> Callable[[], float]:
    """Return one epoch of training, in an order of its own, with loss and accuracy."""
    keep_to_cores()
    import jax
    import jax.numpy as jnp

    workload = WORKLOADS[argument]
    samples, labels = workload.data()
    x, y = jnp.asarray(samples), jnp.asarray(labels)

    def loss(layers: Any, batch: Any, label: Any) -> tuple[Any, Any]:
        output = scores(workload, layers, batch)
        chosen = jnp.take_along_axis(jax.nn.log_softmax(output), label[:, None], axis=1)
        return -chosen.mean(), (output.argmax(1) == label).sum()

    def step(state: Any, rows: Any) -> tuple[Any, Any, Any]:
        layers, means, squares, count = state
        (value, right), gradients = jax.value_and_grad(loss, has_aux=True)(layers, x[rows], y[rows])
        count += 1
        means = jax.tree.map(lambda m, g: BETA1 * m + (1 - BETA1) * g, means, gradients)
        squares = jax.tree.map(lambda v, g: BETA2 * v + (1 - BETA2) * g * g, squares, gradients)
        rate = RATE * jnp.sqrt(1 - BETA2**count) / (1 - BETA1**count)
        layers = jax.tree.map(lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), layers, means, squares)
        return (layers, means, squares, count), value, right

    compiled = jax.jit(step, donate_argnums=0)
    layers = jax.tree.map(jnp.asarray, parameters(workload))
    zeros = [jax.tree.map(jnp.zeros_like, layers) for _ in range(2)]
    state = (layers, *zeros, jnp.float32(0))
    generator = np.random.default_rng(0)

    def run() -> float:
        nonlocal state
        start = time.perf_counter()
        loss_sum, right = 0.0, 0
        for rows in generator.permutation(len(samples)).reshape(-1, workload.batch):
            state, value, correct = compiled(state, rows)
            loss_sum += float(value) * len(rows)
            right += int(correct)
        return time.perf_counter() - start

    return run
