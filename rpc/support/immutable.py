"""Frozen dataclasses that share their methods.

For each dataclass Python writes, compiles and runs the text of some six methods: 0.4 ms. A process that starts with a hundred
of them is late by that, and a job begins when the last of its processes has started.
"""

from __future__ import annotations

import sys
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

if sys.version_info >= (3, 11):
    from typing import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Any:
        """Do nothing: this is for type checkers."""
        return lambda kind: kind


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Immutable:
    """Base of values with named fields, which a subclass states as a frozen dataclass does; `fields`, `asdict` and `replace`
    take it for one. All fields count in comparisons and are shown."""

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def __init_subclass__(cls) -> None:
        cls.__doc__ = cls.__doc__ or cls.__name__  # else it is made of the signature, which takes long
        # its fields alone; the methods here serve all classes
        dataclass(init=False, repr=False, eq=False)(cls)
        if not all(about.compare and about.repr and about.init for about in cls.__dataclass_fields__.values()):
            raise TypeError(f"{cls.__name__} has a field of which only a frozen dataclass takes account")

    def __init__(self, *values: Any, **named: Any) -> None:
        stated = self.__dataclass_fields__
        given = dict(zip(stated, values, strict=False))
        # the common case, for which the checks below would be half of the cost
        if not named and len(values) == len(stated):
            self.__dict__.update(given)
            return
        wrong = sorted((named.keys() & given.keys()) | (named.keys() - stated.keys()))
        if wrong or len(values) > len(stated):
            what = f"{', '.join(wrong)}, which it has not or has twice" if wrong else f"{len(values)} values"
            raise TypeError(f"{type(self).__name__}() takes {', '.join(stated) or 'nothing'}; got {what}")
        given |= named
        content = self.__dict__
        for name, about in stated.items():
            if name in given:
                content[name] = given[name]
            elif about.default is not MISSING:
                content[name] = about.default
            elif about.default_factory is not MISSING:
                content[name] = about.default_factory()
            else:
                raise TypeError(f"{type(self).__name__}() lacks '{name}'")

    def __setattr__(self, name: str, _value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __eq__(self, other: object) -> bool:
        # by exact type, as for a dataclass
        return self.__dict__ == other.__dict__ if type(other) is type(self) else NotImplemented

    def __hash__(self) -> int:
        return hash((type(self), *self.__dict__.values()))

    def __repr__(self) -> str:
        return f"{type(self).__qualname__}({', '.join(f'{name}={value!r}' for name, value in self.__dict__.items())})"
