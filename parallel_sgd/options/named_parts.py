"""Words for the parts of a job: `adam`, `topk`, `ssgd`, `stale:2`, as the command line and `parallel()` take them.

Each function takes the name of the option in messages, and the word. In place of a word there may be `module.Class` or
`file.py:Class`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any, Final, Literal, TypeAlias

import nn
from nn.callback import Callback
from nn.gradient_descent import OptimizerName as WordOfRule
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer import IOptimizer

from .. import batch_sync, profiles, writers
from .. import codec as codecs
from ..batch_sync.sync import SyncName
from ..batch_sync.sync.interface import ISyncType
from ..codec import CodecName
from ..codec.interfaces import Codec
from ..profiles.blockassignment import AssignmentName
from ..profiles.blockassignment.abstract import AbsBlockAssignment
from ..record.bounds import MOST_BLOCKS
from .names import UnknownName, find_class, known_classes, make_object, split_objects

__all__ = ["AssignmentName", "CodecName", "OptimizerName", "RuleName", "SyncName"]


# Words that `parallel()` takes for the parts of a job, as those of codecs, sync types and assignments beside these: editors
# complete them, and type checkers refuse others. Readers take other texts as well, which no type can list.
OptimizerName: TypeAlias = Literal[
    "doublebuffering", "federated", "ga", "gradientaveraging", "localupdate", "parameteraveraging", "psgd", "shardedpsgd"
]
RuleName: TypeAlias = Literal[WordOfRule, "gradientdecay"]


def optimizer(option: str, word: str) -> Any:
    """Return the optimizer, which decides about the values that workers exchange: `psgd`, `localupdate`, ...

    Args:
        option: name of the option in messages.
        word: the word, or `module.Class` or `file.py:Class`.

    Raises: UnknownName.
    """
    known = known_classes(nn.optimizer, IOptimizer, lambda kind: bool(kind.exchanges))
    return find_class(_with_suffix(word, known), IOptimizer, known, option)


def rule(option: str, word: str) -> Any:
    """Return the gradient-descent rule: `adam`, `sgd`, ..."""
    known = known_classes(nn.gradient_descent, IGradientDescent)
    named = nn.gradient_descent.WORDS.get(word.lower(), word)
    return find_class(_with_suffix(named, known), IGradientDescent, known, option)


def _with_suffix(text: str, known: Mapping[str, Any]) -> str:
    """Complete a word: `adam` stands for ADAMOptimizer."""
    return f"{text}optimizer" if f"{text}optimizer".lower() in known else text


def codec(option: str, word: str) -> Any:
    """Return a codec class: `plain`, `topk`, ..."""
    return find_class(word, Codec, known_classes(codecs, Codec), option)


def callback(option: str, text: str) -> list[Callback]:
    """Make callbacks with their arguments: `EarlyStopping:patience=3`.

    Args:
        option: name of the option in messages.
        text: one callback, or several with commas between them.

    Raises: UnknownName.
    """
    known = known_classes(nn.callback, Callback, lambda kind: kind not in _NO_TEXT)
    return [make_object(part, Callback, known, option, several=True) for part in split_objects(text)]


_NO_TEXT: Final = (Callback, nn.callback.LearningRateScheduler)  # the one does nothing, the other takes a function


def writer(option: str, text: str) -> list[Any]:
    """Make writers with their arguments, one or several with commas between them: `tensorboard:directory=tb`."""
    kinds = {"tensorboard": writers.TensorBoardWriter, "mlflow": writers.MLflowWriter}
    known = kinds | {kind.__name__.lower(): kind for kind in kinds.values()}
    return [make_object(part, object, known, option, several=True) for part in split_objects(text)]


def sync(option: str, word: str) -> Any:
    """Return the sync type, which says when a result counts as ready: `ssgd`, `asgd`, `stale:2`."""
    return _read(option, word, batch_sync, ISyncType, sync_forms)


def sync_forms(listed: int | None = 1) -> dict[str, Any]:
    """Return, by form, the sync type that it stands for; of each at most `listed` forms, all for None."""
    return _forms(batch_sync, listed, "ssgd")


def assignment(option: str, word: str) -> Any:
    """Return the assignment, which says which worker computes which blocks: `iid`, `fixed:8`, ..."""
    return _read(option, word, profiles, AbsBlockAssignment, assignment_forms)


def assignment_forms(listed: int | None = 1) -> dict[str, Any]:
    """Return, by form, the assignment that it stands for; of each at most `listed` forms, all for None."""
    return _forms(profiles, listed, "iid")


def _forms(package: ModuleType, listed: int | None, default: str) -> dict[str, Any]:
    """Collect the forms of a package: the default first, those that take a number last."""
    kinds = [getattr(package, name) for name in package.__all__]
    # of the class itself: a subclass does not inherit the words
    found = {form: kind for kind in kinds for form in getattr(kind, "__dict__", {}).get("forms", ())[:listed]}
    return dict(sorted(found.items(), key=lambda item: (":" in item[0], item[0] != default)))


def _read(option: str, text: str, package: ModuleType, base: Any, forms: Callable[[int | None], Mapping[str, Any]]) -> Any:
    """Return the class or setting that the text stands for.

    Raises: UnknownName.
    """
    known = known_classes(package, base)
    # by its own name, as records of jobs have it: the forms are those of all classes, and import them
    if text.lower() in known:
        return known[text.lower()]
    word, colon, number = text.partition(":")
    for form, kind in forms(None).items():
        name, takes_number, _ = form.partition(":")
        # `ssgd:2` and `stale` are neither words nor forms
        if word == name and bool(colon) == bool(takes_number):
            if not colon:
                return kind
            return kind(math.inf if number == "inf" else integer(f"{option} {word}:", number, MOST_BLOCKS))
    return find_class(text, base, known, option, tuple(forms(1)))


def integer(option: str, text: str, most: int) -> int:
    """Return the integer that a text holds; raise UnknownName naming the option where it holds none, or one above `most`,
    positive or negative.
    """
    try:
        number = int(text)
    except ValueError:
        raise UnknownName(f"{option} must be an integer, got {text[:60]!r}.") from None
    if abs(number) > most:
        raise UnknownName(f"{option} must be at most {most}, got {text[:60]}.")
    return number


READERS: Final[Mapping[str, Callable[[str, str], Any]]] = {
    "assignment": assignment,
    "callback": callback,
    "codec": codec,
    "optimizer": optimizer,
    "rule": rule,
    "sync": sync,
    "writer": writer,
}
"""Readers of the words of each part."""
_OPTIONS: Final = {
    "assignment": "assignment_type",
    "codec": "codec",
    "optimizer": "op_type",
    "rule": "gd_type",
    "sync": "sync_type",
}
_CONFUSED: Final = {"optimizer": "an optimizer", "rule": "a rule of gradient descent"}
"""Parts of which each is called by the name of the other one in other libraries."""


def read(part: str, option: str, word: str) -> Any:
    """Return what a word stands for.

    Args:
        part: a key of READERS.
        option: name of the option in messages.
        word: the word.

    Raises: UnknownName, which says of a word of another part, such as the optimizer 'adam', where it belongs.
    """
    try:
        return READERS[part](option, word)
    except UnknownName as error:
        # a word alone: others may be the names of files, which would be imported
        others = [other for other in _OPTIONS if other != part and word.isidentifier() and _is_read(other, word)]
        if part not in _OPTIONS or not others:
            raise
        other = others[0]
        if part in _CONFUSED and other in _CONFUSED:
            raise UnknownName(f"{option} {word!r} is {_CONFUSED[other]}: {_OPTIONS[other]}={word!r}") from None
        raise UnknownName(f"{error} {word!r} is a word of '{_OPTIONS[other]}'.") from None


def _is_read(part: str, word: str) -> bool:
    try:
        READERS[part]("", word)
    except UnknownName:
        return False
    return True


LISTED: Final[Mapping[str, Callable[[], Mapping[str, Any]]]] = {"assignment": assignment_forms, "sync": sync_forms}
"""Forms that a help with `{forms}` in it lists."""
