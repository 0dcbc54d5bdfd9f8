"""What is known of an option of `parallel()` besides its type and default."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:  # no worker loads it
    from .forms import Form

Given = TypeVar("Given", bound="Options")
VALUE: Final = "value"
CODE: Final = "code"
HERE: Final = "here"
"""How an option reaches the nodes: as a plain value, as an object with its code, or not at all."""


@dataclass(frozen=True)
class Flag:
    """An option on the command line: its names, the group that shows it, its form, and what `add_argument` takes besides.

    Without a `help` the text of the option is shown, and behind either the default, unless the help has one of its own.
    """

    names: tuple[str, ...]
    group: str
    help: str
    form: str
    settings: Mapping[str, Any]

    @property
    def decides(self) -> bool:
        """Whether it has a part in the bits of the result."""
        return self.group in ("training", "data")


@dataclass(frozen=True)
class Option:
    """What is known of an option besides its type and default. `check(name, value)` returns the value in its plain form."""

    text: str
    check: Callable[[str, Any], Any]
    flag: Flag | None
    travels: str

    @property
    def form(self) -> Form:
        """That of its flag, by which it stands on the command line and in a job file."""
        from .forms import FORMS  # noqa: PLC0415 - no worker loads it

        return FORMS["plain" if self.flag is None else self.flag.form]


@dataclass(frozen=True)
class Options:
    """The base of a data class whose fields are options."""

    def without_words(self: Given) -> Given:
        """These options with the parts that words in them stand for.

        Raises: UnknownName (a ValueError) naming the option, and what is probably meant.
        """
        given = {name: about for name, about in known(type(self)) if isinstance(getattr(self, name), (str, Mapping))}
        return replace(self, **{name: about.form.meant(f"'{name}'", getattr(self, name)) for name, about in given.items()})

    def travelling(self, kind: str) -> dict[str, Any]:
        """By name, the options that travel as `kind`, VALUE or CODE."""
        return {name: getattr(self, name) for name, about in known(type(self)) if about.travels == kind}


def known(kind: type[Options]) -> Iterator[tuple[str, Option]]:
    return ((each.name, each.metadata["option"]) for each in fields(kind))


def about(
    text: str, check: Callable[[str, Any], Any] | None = None, flag: Flag | None = None, travels: str = VALUE
) -> Mapping[str, Option]:
    """The metadata of a field: it means `text`; one without a `check` is checked with what it depends on, in `spec`."""
    return {"option": Option(text, check or _any, flag, travels)}


def option(
    default: Any, text: str, check: Callable[[str, Any], Any] | None = None, flag: Flag | None = None, travels: str = VALUE
) -> Any:
    return field(default=default, metadata=about(text, check, flag, travels))


def flag(names: str, group: str, help: str = "", form: str = "plain", **settings: Any) -> Flag:
    """The flag `names`, separated by blanks."""
    return Flag(tuple(names.split()), group, help, form, settings)


def _any(_name: str, value: Any) -> Any:
    return value
