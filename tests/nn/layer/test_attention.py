from typing import Any

import numpy as np
import pytest

from nn.layer import MultiHeadAttention
from nn.operation import Attention
from nn.testing import check_gradients
from nn.value import Placeholder, Value
from tests.contract.nn_rows.layers import attended
from tests.nn.graphs import Compiled


def test_variables_have_keras_names_order_and_shapes() -> None:
    layer = MultiHeadAttention(2, 3, value_dim=4, output_dim=7)
    assert layer([Placeholder([-1, 6, 5]), Placeholder([-1, 9, 8])]).shape == (-1, 6, 7)
    assert [(variable.local_name, variable.shape) for variable in layer.variables] == [
        ("query_kernel", (5, 2, 3)), ("query_bias", (2, 3)), ("key_kernel", (8, 2, 3)), ("key_bias", (2, 3)),
        ("value_kernel", (8, 2, 4)), ("value_bias", (2, 4)), ("output_kernel", (2, 4, 7)), ("output_bias", (7,)),
    ]  # fmt: skip
    bare = MultiHeadAttention(2, 3, use_bias=False)
    assert bare(Placeholder([-1, 6, 5])).shape == (-1, 6, 5)
    assert [variable.local_name for variable in bare.variables] == [
        "query_kernel", "key_kernel", "value_kernel", "output_kernel",
    ]  # fmt: skip


def test_kernels_are_drawn_as_matrices() -> None:
    layer = MultiHeadAttention(8, 16)
    Compiled(layer, (4, 128))
    bound = np.sqrt(6 / (128 + 128))
    for kernel in layer.variables[::2]:
        assert 0.95 * bound < abs(kernel.value).max() <= bound


@pytest.mark.parametrize("causal", [False, True])
def test_attention_to_another_sequence(causal: bool) -> None:
    layer = MultiHeadAttention(2, 3, causal=causal)

    def build(x: Value) -> Value:
        return layer([x[:, :2, :3], x[:, 2:], x[:, 2:] * 2])

    check_gradients(build, (6, 4))
    compiled = Compiled(lambda x: MultiHeadAttention(2, 3, causal=causal)([x[:, :2, :3], x[:, 2:], x[:, 2:] * 2]), (6, 4))
    x = np.random.default_rng(0).standard_normal((5, 6, 4))
    variables = [variable.value for variable in compiled.store.variables]
    expected = attended(x[:, :2, :3], *variables, value=x[:, 2:], key=x[:, 2:] * 2, causal=causal)
    np.testing.assert_allclose(compiled.value(x), expected, rtol=1e-12, atol=1e-14)


def test_causal_positions_do_not_see_what_follows() -> None:
    compiled = Compiled(MultiHeadAttention(2, 4, causal=True), (7, 6))
    x = np.random.default_rng(0).standard_normal((3, 7, 6))
    changed = x.copy()
    changed[:, 4:] = np.random.default_rng(1).standard_normal((3, 3, 6))
    first, second = compiled.value(x), compiled.value(changed)
    np.testing.assert_array_equal(first[:, :4], second[:, :4])
    assert (abs(first[:, 4:] - second[:, 4:]) > 1e-6).all()
    weights = np.zeros((3, 7, 6))
    weights[:, :4] = 1
    gradient, _ = compiled.gradients(x, weights)
    assert not gradient[:, 4:].any()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_huge_scores_neither_overflow_nor_warn(dtype: Any) -> None:
    compiled = Compiled(attention_to_itself, (4, 2, 3), dtype)
    x = np.random.default_rng(0).standard_normal((2, 4, 2, 3)) * 1e4
    value = compiled.value(x)
    assert np.isfinite(value).all()
    gradient, _ = compiled.gradients(x)
    assert np.isfinite(gradient).all()


def attention_to_itself(x: Value) -> Value:
    return Attention(causal=True)(x, x, x)


def test_many_samples_are_computed_in_blocks() -> None:
    one, many = Compiled(MultiHeadAttention(4, 8), (40, 16)), Compiled(MultiHeadAttention(4, 8), (40, 16))
    x = np.random.default_rng(0).standard_normal((25, 40, 16))
    whole = many.value(x)
    np.testing.assert_allclose(np.concatenate([one.value(x[i : i + 1]) for i in range(25)]), whole, rtol=1e-12, atol=1e-14)
    check_gradients(MultiHeadAttention(4, 2), (60, 3), batches=(11,))


def test_frozen_projections_get_no_gradient() -> None:
    layer = MultiHeadAttention(2, 3)
    layer(Placeholder([-1, 4, 5]))
    for variable in layer.variables[:4]:
        variable.trainable = False
    compiled = Compiled(layer, (4, 5))
    x = np.random.default_rng(0).standard_normal((2, 4, 5))
    assert len(compiled.gradients(x)[1]) == 4


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda layer: layer(Placeholder([-1, 4])),
            r"MultiHeadAttention 'heads': expected query of shape \(batch, positions, features\), got \(-1, 4\)",
        ),
        (lambda layer: layer([Placeholder([-1, 3, 4]), Placeholder([-1, 4])]), "expected value of shape"),
        (
            lambda layer: layer([Placeholder([-1, 3, 4])] * 4),
            r"expected x, \[query, value\] or \[query, value, key\], got 4 values",
        ),
        (
            lambda layer: layer([Placeholder([-1, 3, 4]), Placeholder([-1, 5, 4]), Placeholder([-1, 6, 4])]),
            r"value and key must have equally many positions on axis 1, got \(-1, 5, 4\) and \(-1, 6, 4\)",
        ),
    ],
)
def test_wrong_inputs_name_the_layer(build: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build(MultiHeadAttention(2, 3, name="heads"))


def test_a_second_call_needs_the_same_features() -> None:
    layer = MultiHeadAttention(2, 3)
    layer(Placeholder([-1, 4, 5]))
    with pytest.raises(
        ValueError, match=r"MultiHeadAttention: expected query of shape \(batch, positions, 5\), got \(-1, 4, 6\)"
    ):
        layer(Placeholder([-1, 4, 6]))


def test_attention_refuses_shapes_that_do_not_fit() -> None:
    x = Placeholder([-1, 4, 2, 3])
    with pytest.raises(
        ValueError,
        match=r"Attention: axis 3 of the key must have the length 3 as in the query of shape \(-1, 4, 2, 3\), "
        r"got 2 in shape \(-1, 4, 2, 2\)",
    ):
        Attention()(x, x[..., :2], x)
    with pytest.raises(ValueError, match="Attention: axis 1 of the value must have the length 4 as in the key"):
        Attention()(x, x, x[:, :2])
    with pytest.raises(ValueError, match=r"Attention: value must have the axes .*, got shape \(-1, 2, 3\)"):
        Attention()(x, x, x[:, 0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0, "key_dim": 3}, "MultiHeadAttention 'num_heads' must be a positive integer, got 0"),
        ({"num_heads": 2, "key_dim": 0}, "MultiHeadAttention 'key_dim' must be a positive integer, got 0"),
        ({"num_heads": 2, "key_dim": 3, "value_dim": -1}, "MultiHeadAttention 'value_dim' must be a positive integer, got -1"),
        ({"num_heads": 2, "key_dim": 3, "output_dim": 0}, "MultiHeadAttention 'output_dim' must be a positive integer, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**arguments)
    with pytest.raises(TypeError, match="MultiHeadAttention 'causal' must be an instance of bool, got int 1"):
        MultiHeadAttention(2, 3, causal=1)
