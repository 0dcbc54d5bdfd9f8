"""States made of any values, and of a model and values."""

from __future__ import annotations

import copy
import random
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

import numpy as np

from nn import arguments
from nn.arrays import Array
from nn.model import Model

from .group import current
from .state import State

Content: TypeAlias = dict[str, dict[str, Any]]
"""Content of a state as it is saved and sent: values of each kind by name."""


class ObjectState(State):
    """Values by name, each an attribute that may be read, set, and changed in place.

    `save`, `restore` and `sync` work on deep copies. Random generators (NumPy's and Python's) and objects with `state_dict` and
    `load_state_dict` stay the objects they are and get their content back. Values that are synchronised must be data that may
    travel: numbers, text, arrays, lists, tuples, dicts.

    >>> state = ObjectState(epoch=0, seen=[])
    >>> state.seen.append(7)
    >>> state.restore()
    >>> state.seen
    []

    Args:
        values: the values, each by its name as a keyword.

    Raises: ValueError for a name that the state itself uses, TypeError for a model, which needs a `ModelState`.
    """

    def __init__(self, **values: Any) -> None:
        super().__init__(lambda value: current().broadcast(value), lambda: current().rank, lambda: current().sequence)
        for name in values:
            if name.startswith("_") or hasattr(type(self), name):
                raise ValueError(f"{type(self).__name__} cannot hold a value called '{name}': that name is its own")
            if isinstance(values[name], Model):
                raise TypeError(f"{type(self).__name__} cannot synchronise the model '{name}'; use ModelState({name}, ...)")
        self._names = tuple(values)
        for name, value in values.items():
            setattr(self, name, value)
        self._spare: Content = {}  # takes the next copy, so that one which does not come to its end harms nothing
        # EL-6: before the first commit the values of the construction are the last commit
        self._saved = self._copy(self._spare)

    def __getattr__(self, name: str) -> Any:
        """Refuse a name that is no value; values are attributes, which Python finds by itself."""
        names = ", ".join(self.__dict__.get("_names", ())) or "nothing"
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'; it holds {names}")

    if TYPE_CHECKING:  # type checkers know a value by nothing else

        def __setattr__(self, name: str, value: Any) -> None: ...

    def save(self) -> None:
        fresh = self._copy(self._spare)
        # changed places after the copy is whole: an error in the middle leaves the last commit
        self._saved, self._spare = fresh, self._saved
        # lazily: a copy that is not due costs nothing
        current().keep(lambda: copy.deepcopy(fresh))

    def restore(self) -> None:
        self._put(self._saved)

    def sync(self) -> None:
        """Take over rank 0's values as they are now, bit for bit, and save them.

        Raises: WorkersLostError, and ValueError where rank 0 holds other names.
        """
        group = current()
        # rank 0 alone copies: the others take what comes
        mine = self._copy({}) if group.rank == 0 else None
        theirs = group.broadcast(mine)
        if mine is None:
            # before anything is changed here
            self._check(theirs)
            self._put(theirs)
        self.save()

    def load(self, content: Any) -> None:
        """Begin with the values `content` that were kept, and save them. Raises: ValueError for content that does not fit."""
        try:
            self._check(content)
            self._put(content)
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"The checkpoint is not of this program's state: {error}") from error
        self.save()

    def _copy(self, into: Content) -> Content:
        """Return a copy of everything; may use up the memory of an older copy, `into`."""
        values = {name: getattr(self, name) for name in self._names}
        kept = {name: content(value) for name, value in values.items() if is_kept(value)}
        # in one go: two names of one array stay names of one array
        plain = copy.deepcopy({name: value for name, value in values.items() if name not in kept})
        return {"plain": plain, "kept": kept}

    def _put(self, saved: Content) -> None:
        for name, state in saved["kept"].items():
            fill(getattr(self, name), state)
        # a deep copy again: the saved state must survive changes of the restored one (EL-7)
        for name, value in copy.deepcopy(saved["plain"]).items():
            setattr(self, name, value)

    def _check(self, theirs: Content) -> None:
        names = {*theirs["plain"], *theirs["kept"]}
        # names that only one side has, and objects with a state that are plain here
        odd = sorted(names ^ set(self._names)) + sorted(name for name in theirs["kept"] if not is_kept(getattr(self, name)))
        if odd:
            raise ValueError(
                f"{type(self).__name__} must hold the same values on all workers; '{odd[0]}' is not that of rank 0"
            )

    def _agree(self, decision: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return rank 0's decision, which no worker knows before all have saved: a commit of one worker is one of all."""
        group = current()
        mine = decision if group.rank == 0 else (0, 0, 0)
        # the largest: all but rank 0 give zeros, so this is its decision
        previous, last, kind = group.allreduce(np.array(mine, np.int64), "max").tolist()
        return previous, last, kind


_PythonGenerator = random.Random  # noqa: S311 - to be told from others, not to draw from


@runtime_checkable
class Stateful(Protocol):
    """Object that tells its state and takes one over, such as a sampler, a rule, an optimizer or a callback."""

    def state_dict(self) -> Any:
        """Return the state, which may be live."""

    def load_state_dict(self, state: Any) -> Any:
        """Take over a copy of a state."""


def is_kept(value: object) -> bool:
    """Tell whether `value` stays the same object while its content is saved and restored; else a deep copy takes its place."""
    return isinstance(value, (np.random.Generator, _PythonGenerator)) or (
        isinstance(value, Stateful) and not isinstance(value, type)
    )


def content(value: Any) -> Any:
    """Return a copy of the content of a value that `is_kept`, as data that may travel."""
    if isinstance(value, np.random.Generator):
        return copy.deepcopy(value.bit_generator.state)
    if isinstance(value, _PythonGenerator):
        return value.getstate()
    return copy.deepcopy(value.state_dict())


def fill(value: Any, state: Any) -> None:
    """Put a copy of such a content into a value that `is_kept`."""
    if isinstance(value, np.random.Generator):
        value.bit_generator.state = copy.deepcopy(state)
    elif isinstance(value, _PythonGenerator):
        value.setstate(state)
    else:
        value.load_state_dict(copy.deepcopy(state))


class ModelState(ObjectState):
    """A model and values by name.

    Of the model it carries the weights, trained and not, the statistics of its layers, the state of its rule and optimizer, a
    learning rate that is a number, its history, and its counters. `model` and `model.store` stay the objects they are.

    >>> model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    >>> model.setup(nn.loss.Cross_Entropy_With_Softmax())
    >>> state = ModelState(model, batch=0)
    >>> model.store.values[:] = 9
    >>> state.restore()
    >>> bool((model.store.values == 9).any())
    False

    Args:
        model: a built model.
        values: further values, each by its name as a keyword.

    Raises: TypeError for an object that is no model, ValueError for one without variables yet, or a name that the state itself
    uses.
    """

    model: Model

    def __init__(self, model: Model, **values: Any) -> None:
        arguments.instance(self, "model", model, Model)
        if not model.built:
            raise ValueError("ModelState 'model' must have its variables; give it an input_shape and call setup() first")
        self.model = model
        super().__init__(**values)

    def _copy(self, into: Content) -> Content:
        # fresh memory for the weights would cost more than copying them
        return {**super()._copy(into), "model": _copied(self._live(), into.get("model", {}))}

    def _put(self, saved: Content) -> None:
        self._load(saved["model"])
        super()._put(saved)

    def _check(self, theirs: Content) -> None:
        # the model last: its check is the dearest
        super()._check(theirs)
        mine, model = self._live(), theirs.get("model", {})
        for name in ("values", "buffers"):
            if name not in model or not _alike(model[name], mine[name]):
                raise ValueError(
                    f"ModelState must hold the same model on all workers: its {name} are {mine[name].size} of "
                    f"{mine[name].dtype} here, rank 0 has others"
                )

    def _live(self) -> dict[str, Any]:
        model, store = self.model, self.model.store
        live: dict[str, Any] = {"values": store.values, "buffers": store.buffer_values}
        live.update((f"fixed:{number}", variable.value) for number, variable in enumerate(store.fixed))
        if model.rule is not None:
            live.update((f"optimizer:{name}", value) for name, value in model.optimizer.state_dict().items())
            if model.rule.schedule is None:
                live["learn_rate"] = model.rule.learn_rate
        # history and counters belong to the state: a restored training tells its epochs once
        history = model.fit_history()
        live["history"], live["history_seed"] = history.rows, history.seed
        live["epochs_trained"] = model.epochs_trained
        live["seed"], live["keyless_calls"] = model.seed, model.keyless_calls  # what random numbers are keyed by
        return live

    def _load(self, content: dict[str, Any]) -> None:
        model, store = self.model, self.model.store
        np.copyto(store.values, content["values"])
        np.copyto(store.buffer_values, content["buffers"])
        for number, variable in enumerate(store.fixed):
            np.copyto(variable.value, content[f"fixed:{number}"])
        if model.rule is not None:
            prefix = "optimizer:"
            state = {name[len(prefix) :]: value for name, value in content.items() if name.startswith(prefix)}
            model.optimizer.load_state_dict(state)
            if "learn_rate" in content:
                model.rule.learn_rate = content["learn_rate"]
        history = model.fit_history()
        history.rows, history.seed = copy.deepcopy(content["history"]), content["history_seed"]
        model.epochs_trained = content["epochs_trained"]
        model.seed, model.keyless_calls = content["seed"], content["keyless_calls"]


def _copied(live: dict[str, Any], last: dict[str, Any]) -> dict[str, Any]:
    """Return a deep copy of `live`; its arrays take the memory of the arrays in `last` where these fit."""
    copies: dict[str, Any] = {}
    for name, value in live.items():
        place = last.get(name)
        if isinstance(value, np.ndarray) and isinstance(place, np.ndarray) and _alike(place, value):
            np.copyto(place, value)
            copies[name] = place
        else:
            copies[name] = copy.deepcopy(value)
    return copies


def _alike(one: Array, other: Array) -> bool:
    return (one.shape, one.dtype) == (other.shape, other.dtype)
