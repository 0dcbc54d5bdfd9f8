"""Variables, and the store that holds their values and gradients in two vectors."""

import copy
import pickle
from collections.abc import Callable

import numpy as np
import pytest

from nn.initializer import Constant
from nn.value import Buffer, Variable, VariableStore


def store_of(*variables: Variable, dtype: str = "float32") -> VariableStore:
    return VariableStore(variables, [], np.dtype(dtype), 0)


def test_values_and_gradients_are_views_into_two_vectors() -> None:
    """Getters copy, the setter checks."""
    first, second = Variable([2, 3], name="a"), Variable([4], Constant(3), name="b")
    store = store_of(first, second)
    assert store.values.shape == store.gradients.shape == (10,)
    assert (first.id, second.id) == (0, 1)
    assert second.get_value().tolist() == [3, 3, 3, 3]
    store.values[:] = np.arange(10)
    store.gradients[:] = -np.arange(10)
    assert first.value.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert second.gradient.tolist() == [-6, -7, -8, -9]
    first.value[0, 0] = 7
    assert store.values[0] == 7
    taken, gradient = second.get_value(), second.get_gradient()
    taken[0], gradient[0] = 9, 9
    assert second.value.tolist() == [6, 7, 8, 9]
    assert second.gradient[0] == -6
    second.set_value([1, 2, 3, 4])
    assert store.values[6:].tolist() == [1, 2, 3, 4]
    with pytest.raises(ValueError, match=r"Variable 'b' has shape \(4,\), got an array of shape \(3,\)"):
        second.set_value(np.zeros(3))
    for wrong in (np.full(4, 1 + 2j), np.array(list("abcd"))):
        with pytest.raises(TypeError, match=rf"Variable '.+' must hold numbers, got {wrong.dtype}"):
            second.set_value(wrong)


def test_a_variable_has_a_value_from_a_store_on() -> None:
    variable = Variable([1], name="w")
    with pytest.raises(ValueError, match=r"Variable 'w' has no value yet; call the model's setup\(\) first"):
        variable.get_value()
    with pytest.raises(ValueError, match="Variable 'w' has no gradient yet"):
        variable.get_gradient()
    first = store_of(variable)
    variable.set_value([7.0])
    assert store_of(variable).values is not first.values  # parts of one memory, with the value that it had
    assert store_of(variable, Variable([2])).values[:1].tolist() == first.values.tolist() == [7]


def test_what_is_not_trained() -> None:
    """A store decides it; buffers and fixed variables have values but no gradients."""
    trained, fixed = Variable([2], name="w"), Variable([3], Constant(2), name="mean", trainable=False)
    trained.trainable = False
    assert (trained.frozen, fixed.frozen) == (True, False)
    trained.trainable = True
    store = VariableStore([trained], [fixed], np.dtype("float64"), 0)
    assert store.values.shape == (2,)
    assert store.everything == [trained, fixed]
    assert fixed.get_value().tolist() == [2, 2, 2]
    assert fixed.id == -1
    with pytest.raises(ValueError, match="Variable 'mean' is not trained"):
        fixed.get_gradient()


def test_first_values_depend_on_seed_and_place_only() -> None:
    def draw(seed: int) -> list[np.ndarray]:
        variables = [Variable([3, 3]), Variable([3, 3])]
        VariableStore(variables, [], np.dtype("float32"), seed)
        return [variable.get_value() for variable in variables]

    first, again, other = draw(1), draw(1), draw(2)
    assert np.array_equal(first, again)
    assert not np.array_equal(first[0], first[1])
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda store: pickle.loads(pickle.dumps(store))])
def test_a_copy_of_a_store_has_memory_of_its_own(duplicate: Callable[[VariableStore], VariableStore]) -> None:
    trained, mean, fixed = Variable([3], name="w"), Buffer([2], name="mean"), Variable([2], name="f", trainable=False)
    store = VariableStore([trained], [mean, fixed], np.dtype("float32"), 5)
    for number, array in enumerate((store.gradients, store.buffer_values, store.buffer_changes, fixed.value), 1):
        array[:] = number
    made = duplicate(store)
    for variable, original in zip(made.everything, store.everything, strict=True):
        assert np.array_equal(variable.value, original.value)
        assert not np.shares_memory(variable.value, original.value)
        assert variable.id == original.id
    assert np.shares_memory(made.variables[0].gradient, made.gradients)
    assert np.shares_memory(made.buffers[0].value, made.buffer_values)
    assert made.gradients.tolist() == [1, 1, 1]
    assert made.buffer_changes.tolist() == [3, 3]
    with pytest.raises(ValueError, match="'w' has no value yet"):
        duplicate(trained).get_value()  # type: ignore[arg-type, attr-defined]
