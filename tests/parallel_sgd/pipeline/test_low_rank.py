"""PowerSGD: its identities."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from parallel_sgd.codec.pipeline import PowerSGD

from .laws import DRAW, Array, gaussian


def step(nodes: list[PowerSGD], gradients: list[Array], batch: int = 0) -> list[Array]:
    """Do one exchange by hand: every node gets the mean of both rounds."""
    draw = DRAW._replace(batch=batch)
    first = np.mean(
        [c.project(g, draw._replace(node=i)) for i, (c, g) in enumerate(zip(nodes, gradients, strict=True))], axis=0
    )
    if nodes[0].is_dense(gradients[0].shape):
        return [first.reshape(gradients[0].shape)] * len(nodes)
    second = np.mean([c.back_project(first) for c in nodes], axis=0)
    return [c.reconstruct(second).copy() for c in nodes]


def test_bytes_of_the_contract() -> None:
    assert PowerSGD(2).rounds((1000, 1000)) == (2000, 2000)
    assert PowerSGD(3).rounds((5, 5, 16, 32)) == (3 * 400, 3 * 32)


@pytest.mark.parametrize("shape", [(), (7,), (1, 50), (50, 1), (4, 4), (0, 5), (5, 0), (3, 3)])
def test_what_would_take_more_bytes_is_dense(shape: tuple[int, ...]) -> None:
    """And so everything of r >= min(m, p), which makes it exact."""
    compressor, g = PowerSGD(2), gaussian(*shape)
    assert compressor.is_dense(shape)
    assert compressor.rounds(shape) == (g.size,)
    sent = compressor.project(g, DRAW)
    assert sent.tobytes() == g.tobytes()
    assert compressor.state_dict() == {}
    with pytest.raises(RuntimeError, match="no step of two rounds under way"):
        compressor.back_project(sent)


@pytest.mark.parametrize("shape", [(40, 60), (60, 40), (3, 3, 8, 50)])
@pytest.mark.parametrize("workers", [1, 4])
def test_a_mean_of_no_more_than_the_rank_is_exact(shape: tuple[int, ...], workers: int) -> None:
    rank, p = 4, shape[-1]
    m = int(np.prod(shape[:-1]))
    gradients = [(gaussian(m, 1, seed=i) @ gaussian(1, p, seed=50 + i)).reshape(shape) for i in range(workers)]
    mean = np.mean(gradients, axis=0)
    for result in step([PowerSGD(rank) for _ in range(workers)], gradients):
        assert result.shape == shape
        assert np.linalg.norm(result - mean) <= 1e-5 * np.linalg.norm(mean)


def test_the_result_is_that_of_one_node_which_has_the_mean() -> None:
    """Linear: W = 4 == W = 1 on the mean, in every step; Q and the result are the same on all nodes, to the bit."""
    nodes, single = [PowerSGD(2) for _ in range(4)], PowerSGD(2)
    for batch in range(20):
        gradients = [gaussian(48, 64, seed=10 * batch + i) + gaussian(48, 64) for i in range(4)]
        results = step(nodes, gradients, batch)
        (alone,) = step([single], [np.mean(gradients, axis=0)], batch)
        np.testing.assert_allclose(results[0], alone, atol=2e-5 * float(np.abs(alone).max()) * (batch + 1))
        for node, result in zip(nodes[1:], results[1:], strict=True):
            assert result.tobytes() == results[0].tobytes()
            assert node.state_dict()["right"].tobytes() == nodes[0].state_dict()["right"].tobytes()
        residual = np.mean([node.state_dict()["residual"] for node in nodes], axis=0)
        np.testing.assert_allclose(residual, single.state_dict()["residual"], atol=2e-4 * (batch + 1))


def test_the_residual_is_what_the_result_lacks() -> None:
    nodes = [PowerSGD(1), PowerSGD(1)]
    residuals = [np.zeros((30, 20), np.float32)] * 2
    total_in, total_out = np.zeros((30, 20)), np.zeros((30, 20))
    for batch in range(300):
        gradients = [gaussian(30, 20, seed=2 * batch + i) for i in range(2)]
        (result, _) = step(nodes, gradients, batch)
        residuals = [(r + g) - result for r, g in zip(residuals, gradients, strict=True)]
        for node, residual in zip(nodes, residuals, strict=True):
            assert node.state_dict()["residual"].tobytes() == residual.tobytes()
        total_in += np.mean(gradients, axis=0)
        total_out += result
    left = np.mean(residuals, axis=0)
    assert np.linalg.norm(total_out + left - total_in) <= 1e-5 * np.linalg.norm(total_in)


def test_warm_starts_find_the_best_approximation() -> None:
    """Power iteration: on a matrix at rest, without the residual, the error comes down to that of the singular values."""
    matrix = gaussian(40, 30)
    singular = np.linalg.svd(matrix, compute_uv=False)
    best = float(np.sqrt((singular[3:] ** 2).sum()))
    compressor, errors = PowerSGD(3), []
    for batch in range(60):
        (result,) = step([compressor], [matrix], batch)
        errors.append(float(np.linalg.norm(result - matrix)))
        compressor.state_dict()["residual"].fill(0)
    assert errors[-1] < best * 1.01 < errors[0]


def test_zeros_do_not_stop_it() -> None:
    compressor = PowerSGD(2)
    for batch in range(3):
        (result,) = step([compressor], [np.zeros((20, 30), np.float32)], batch)
        assert not result.any()
    g = gaussian(20, 30)
    total = np.zeros((20, 30))
    for batch in range(200):
        (result,) = step([compressor], [g], batch)
        total += result
    np.testing.assert_allclose(total / 200, g, atol=0.2)


def test_a_run_goes_on_from_its_state_bit_for_bit() -> None:
    compressor, state = PowerSGD(2), PowerSGD(2).state_dict()
    for batch in range(6):
        gradient = gaussian(24, 36, seed=batch)
        (expected,) = step([compressor], [gradient], batch)
        again = PowerSGD(2)
        again.load_state_dict(state)
        (found,) = step([again], [gradient], batch)
        assert found.tobytes() == expected.tobytes()
        state = {name: value.copy() for name, value in again.state_dict().items()}


def test_the_gradient_is_not_changed_and_may_have_any_order() -> None:
    g = gaussian(60, 40)
    wide = np.repeat(g, 2, axis=1)[:, ::2]
    for x in (wide, np.asfortranarray(g), g.astype(np.float64)):
        x.setflags(write=False)
        (result,) = step([PowerSGD(2)], [x])
        (expected,) = step([PowerSGD(2)], [g])
        assert result.tobytes() == expected.tobytes()
        np.testing.assert_array_equal(x, g)


def test_misuse_is_named() -> None:
    compressor, other = PowerSGD(1), PowerSGD(1)
    first = compressor.project(gaussian(20, 30), DRAW)
    other.load_state_dict({"residual": gaussian(3, 4), "right": gaussian(4, 1)})
    misuses: list[tuple[type[Exception], str, Callable[[], object]]] = [
        (ValueError, r"PowerSGD 'rank' must be a positive integer, got 0", lambda: PowerSGD(0)),
        (RuntimeError, r"call back_project\(\)", lambda: compressor.reconstruct(gaussian(30))),
        (ValueError, "PowerSGD expects the mean of 20 numbers, got 19", lambda: compressor.back_project(first[:-1])),
        (ValueError, r"of shape \(20, 30\), got \(30, 20\)", lambda: compressor.project(gaussian(30, 20), DRAW)),
        (ValueError, "finite numbers, got 600", lambda: compressor.project(np.full((20, 30), np.nan), DRAW)),
        (ValueError, "residual and right, got velocity", lambda: compressor.load_state_dict({"velocity": gaussian(3)})),
        (
            ValueError,
            "must hold m x p and p x r",
            lambda: compressor.load_state_dict({"residual": gaussian(3, 4), "right": gaussian(3, 1)}),
        ),
        (ValueError, "has a state for other than 20 x 30 numbers of rank 1", lambda: other.project(gaussian(20, 30), DRAW)),
    ]
    for error, message, misuse in misuses:
        with pytest.raises(error, match=message):
            misuse()
