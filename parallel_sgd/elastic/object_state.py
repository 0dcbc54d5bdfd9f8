"""A state made of any values."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from nn.model import Model

from .group import current
from .keeping import content, fill, is_kept
from .state import State

Content: TypeAlias = dict[str, dict[str, Any]]
"""What is saved and sent: values of each kind by name."""


class ObjectState(State):
    """Values by name, each an attribute that may be read, set, and changed in place.

    `save`, `restore` and `sync` work on deep copies. Random generators (NumPy's and Python's) and objects with `state_dict` and
    `load_state_dict` stay the objects they are and get their content back. What is to be synchronised must be data that may
    travel: numbers, text, arrays, lists, tuples, dicts.

    >>> state = ObjectState(epoch=0, seen=[])
    >>> state.seen.append(7)
    >>> state.restore()
    >>> state.seen
    []

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
        self._saved = self._copy(self._spare)

    def __getattr__(self, name: str) -> Any:
        """Values are attributes; here comes what is none."""
        names = ", ".join(self.__dict__.get("_names", ())) or "nothing"
        raise AttributeError(f"{type(self).__name__} has no attribute '{name}'; it holds {names}")

    if TYPE_CHECKING:  # type checkers know a value by nothing else

        def __setattr__(self, name: str, value: Any) -> None: ...

    def save(self) -> None:
        """Keep a deep copy of all values."""
        fresh = self._copy(self._spare)
        self._saved, self._spare = fresh, self._saved
        current().keep(lambda: copy.deepcopy(fresh))

    def restore(self) -> None:
        """Give all values back as they were saved last, or constructed."""
        self._put(self._saved)

    def sync(self) -> None:
        """Take over rank 0's values as they are now, bit for bit, and save them.

        Raises: WorkersLostError, and ValueError where rank 0 holds other names.
        """
        group = current()
        mine = self._copy({}) if group.rank == 0 else None
        theirs = group.broadcast(mine)
        if mine is None:
            self._check(theirs)
            self._put(theirs)
        self.save()

    def load(self, content: Any) -> None:
        """Begin with the values that were kept, and save them. Raises: ValueError for what does not fit."""
        try:
            self._check(content)
            self._put(content)
        except (ValueError, TypeError, LookupError) as error:
            raise ValueError(f"The checkpoint is not of this program's state: {error}") from error
        self.save()

    def _copy(self, into: Content) -> Content:
        """A copy of everything; may use up the memory of an older one, `into`."""
        values = {name: getattr(self, name) for name in self._names}
        kept = {name: content(value) for name, value in values.items() if is_kept(value)}
        # in one go: two names of one array stay names of one array
        plain = copy.deepcopy({name: value for name, value in values.items() if name not in kept})
        return {"plain": plain, "kept": kept}

    def _put(self, saved: Content) -> None:
        for name, state in saved["kept"].items():
            fill(getattr(self, name), state)
        for name, value in copy.deepcopy(saved["plain"]).items():
            setattr(self, name, value)

    def _check(self, theirs: Content) -> None:
        names = {*theirs["plain"], *theirs["kept"]}
        odd = sorted(names ^ set(self._names)) + sorted(name for name in theirs["kept"] if not is_kept(getattr(self, name)))
        if odd:
            raise ValueError(
                f"{type(self).__name__} must hold the same values on all workers; '{odd[0]}' is not that of rank 0"
            )

    def _agree(self, decision: tuple[int, int, int]) -> tuple[int, int, int]:
        """Rank 0's decision, known to nobody before everybody has saved: what one worker has committed, all have."""
        group = current()
        mine = decision if group.rank == 0 else (0, 0, 0)
        previous, last, kind = group.allreduce(np.array(mine, np.int64), "max").tolist()
        return previous, last, kind
