"""Text of clients, as the command line and `job.toml` have it: `count=100,sample=10,split=dirichlet:alpha=0.3`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import nn
from nn.arguments import Configurable
from nn.gradient_descent.interface import IGradientDescent

from ..options.names import UnknownName, arguments_in, known_classes, literal_text, make_object
from ..record.plain import NoText
from .clients import Clients
from .clock import ClientClock
from .samplers import BufferedSampler, FixedSampler, PoissonSampler, Sampler, TimedSampler, WeightedSampler
from .sizes import LogNormalSizes, PowerLawSizes, Sizes
from .splits import DirichletSplit, IIDSplit, OwnSplit, RowsSplit, ShardSplit, Split
from .terms import ClientTerm

__all__ = ["read_clients", "write_clients"]


def _words(base: Any, *kinds: type[Any], **more: type[Any]) -> dict[str, Any]:
    end = base.__name__.lower()
    return {
        **{kind.__name__.lower().removesuffix(end): kind for kind in kinds},
        **{k.__name__.lower(): k for k in kinds},
        **more,
    }


def _rules() -> dict[str, Any]:
    found = dict(known_classes(nn.gradient_descent, IGradientDescent))
    return {**found, **{name.removesuffix("optimizer"): kind for name, kind in found.items()}}


#: Arguments that are objects: the class of each, and those that have a word.
_PARTS: Final[Mapping[str, tuple[Any, Mapping[str, Any]]]] = {
    "sample": (Sampler, _words(Sampler, BufferedSampler, FixedSampler, PoissonSampler, TimedSampler, WeightedSampler)),
    "split": (Split, _words(Split, DirichletSplit, IIDSplit, OwnSplit, ShardSplit)),
    "sizes": (Sizes, _words(Sizes, LogNormalSizes, PowerLawSizes)),
    "server": (IGradientDescent, _rules()),
    "term": (ClientTerm, {}),
}


def read_clients(option: str, text: str) -> Clients:
    """Return the clients that a text stands for.

    Args:
        option: name of the option in messages.
        text: KEY=VALUE with commas between them, as `make_object` takes them; objects as NAME or NAME:KEY=VALUE, in quotation
            marks where they have commas.

    Raises: UnknownName naming the option and the argument.
    """
    given = arguments_in(text, Clients, option)
    for name, (base, known) in _PARTS.items():
        if isinstance(given.get(name), str):
            given[name] = make_object(given[name], base, known, f"{option} {name}", parts=_PARTS)
    if isinstance(given.get("clock"), str):
        given["clock"] = _clock(given["clock"], f"{option} clock")
    lacking = [name for name in ("count", "sample") if name not in given]
    if lacking:
        raise UnknownName(f"{option} needs {' and '.join(lacking)}, as in {option} count=100,sample=10; got {text!r}.")
    try:
        return Clients(**given)
    except (TypeError, ValueError) as error:
        raise UnknownName(f"{option}: {error}") from error


def write_clients(clients: Clients, told: Callable[[type[Any], Mapping[str, Any]], str]) -> str:
    """Return the text that stands for clients.

    Args:
        clients: the clients.
        told: returns the text of an object by its class and arguments.

    Raises: NoText where a part has no text, such as rows that a program has dealt.
    """
    # the default of `rounds` depends on count and sample, and a sampler may need the clock
    usual = {**Clients(clients.count, clients.sample, clock=clients.clock).get_config(), "clock": None}
    texts = []
    for name, value in clients.get_config().items():
        if name not in ("count", "sample") and repr(value) == repr(usual[name]):
            continue
        if isinstance(value, RowsSplit):
            raise NoText(f"rows of clients in the memory of a program, {value!r}")
        text = _text(value, told) if isinstance(value, Configurable) else value
        texts.append(f"{name}={literal_text(text)}")
    return ",".join(texts)


def _text(value: Configurable, told: Callable[[type[Any], Mapping[str, Any]], str]) -> str:
    """Return the text of an object and of the objects in its arguments; of a clock its arguments alone."""
    config = value.get_config()
    inner = {name: each for name, each in config.items() if isinstance(each, Configurable)}
    text = told(type(value), {name: each for name, each in config.items() if name not in inner})
    # apart from the others, which may not look like files
    texts = [f"{name}={literal_text(_text(each, told))}" for name, each in inner.items()]
    text += "".join(f"{',' if place or len(config) > len(inner) else ':'}{each}" for place, each in enumerate(texts))
    return text.partition(":")[2] if type(value) is ClientClock else text


def _clock(text: str, option: str) -> ClientClock:
    try:
        return ClientClock(**arguments_in(text, ClientClock, option))
    except (TypeError, ValueError) as error:
        raise UnknownName(f"{option}: {error}") from error
