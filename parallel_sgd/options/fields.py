"""Metadata of the options of `parallel()`, besides the type and the default of each."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:  # no worker loads it
    from .forms import Form

Given = TypeVar("Given", bound="Options")
VALUE: Final = "value"
CODE: Final = "code"
HERE: Final = "here"
"""Ways of an option to the nodes: as a plain value, as an object with its code, or not at all."""


@dataclass(frozen=True)
class Flag:
    """Flag of an option on the command line.

    Args:
        names: its names, such as `--epochs`.
        group: the group of the help that shows it.
        help: text of the help; without one the text of the option is shown, and behind either the default, unless the help has
            one of its own.
        form: name of its form in `forms.FORMS`.
        settings: further arguments of `add_argument`.
    """

    names: tuple[str, ...]
    group: str
    help: str
    form: str
    settings: Mapping[str, Any]

    @property
    def decides(self) -> bool:
        """Whether the option has a part in the bits of the result."""
        # by group, so that a new option in it is part of what `verify` compares without another list
        return self.group in ("training", "data")


@dataclass(frozen=True)
class Option:
    """Metadata of an option besides its type and default.

    Args:
        text: its meaning, as docs/options.md has it.
        check: called as `check(name, value)`, it returns the value in its plain form.
        flag: its flag on the command line, or None.
        travels: how it reaches the nodes, one of VALUE, CODE, HERE.
    """

    text: str
    check: Callable[[str, Any], Any]
    flag: Flag | None
    travels: str

    @property
    def form(self) -> Form:
        """Form of its flag, by which it stands on the command line and in a job file."""
        from .forms import FORMS  # noqa: PLC0415 - no worker loads it

        return FORMS["plain" if self.flag is None else self.flag.form]


@dataclass(frozen=True)
class Options:
    """Base of a data class whose fields are options."""

    def without_words(self: Given) -> Given:
        """Replace words in these options by the parts that they stand for, and return the new options.

        Raises: UnknownName (a ValueError) naming the option, and the word that is probably meant.
        """
        # words and dicts of words; other values are in their plain form already
        given = {name: about for name, about in known(type(self)) if isinstance(getattr(self, name), (str, Mapping))}
        return replace(self, **{name: about.form.meant(f"'{name}'", getattr(self, name)) for name, about in given.items()})

    def travelling(self, kind: str) -> dict[str, Any]:
        """Return, by name, the options that travel as `kind`, VALUE or CODE."""
        return {name: getattr(self, name) for name, about in known(type(self)) if about.travels == kind}


def known(kind: type[Options]) -> Iterator[tuple[str, Option]]:
    """Yield name and metadata of each option of a class."""
    return ((each.name, each.metadata["option"]) for each in fields(kind))


def about(
    text: str, check: Callable[[str, Any], Any] | None = None, flag: Flag | None = None, travels: str = VALUE
) -> Mapping[str, Option]:
    """Make the metadata of a field: it means `text`. A field without a `check` is checked together with the options on which it
    depends, in `make_spec`.
    """
    return {"option": Option(text, check or _any, flag, travels)}


def described(**abouts: Mapping[str, Option]) -> Callable[[type[Given]], type[Given]]:
    """Give the fields of a class their metadata, before `dataclass` reads them.

    The fields keep literal defaults, which editors show and type checkers compare with the types.

    Args:
        abouts: metadata of each field, as `about` makes it.

    Raises: TypeError for a field without metadata, or metadata without a field.
    """

    def decorate(kind: type[Given]) -> type[Given]:
        # `_` is the mark of keyword arguments in a dataclass
        names = [name for name in inspect.get_annotations(kind) if name != "_"]
        if differing := set(names) ^ abouts.keys():
            raise TypeError(f"each option of {kind.__name__} must have a field and an 'about', got one of {sorted(differing)}")
        for name in names:
            # the attribute becomes a field that `dataclass` finds
            setattr(kind, name, field(default=getattr(kind, name, MISSING), metadata=abouts[name]))
        return kind

    return decorate


def flag(names: str, group: str, help: str = "", form: str = "plain", **settings: Any) -> Flag:
    """Make the flag `names`, separated by blanks."""
    return Flag(tuple(names.split()), group, help, form, settings)


def _any(_name: str, value: Any) -> Any:
    return value
