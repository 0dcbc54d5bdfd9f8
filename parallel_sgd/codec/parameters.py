"""Parameters of a job that its codecs read, so that a misspelt one is refused before it is sent, or named at the end."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Mapping
from typing import Any

from network.names import did_you_mean
from nn.extension import is_ours
from parallel_sgd.profiles.blockassignment.assignments import IIDBlockAssignment
from rpc.support.logs import SUBMIT_LOGGER, get_logger

from .interfaces import Codec
from .settings import GlobalSettings

_log = get_logger(SUBMIT_LOGGER)


def check_parameters(given: Mapping[Hashable, Any], kinds: Iterable[type[Any]]) -> None:
    """Refuse a parameter that none of the classes reads, codecs and classes that run beside them, where all tell.

    Args:
        given: the parameters of the job.
        kinds: the classes.

    Raises: ValueError naming it, the name that may be meant, and the parameters that each codec reads.
    """
    found = {kind: reads(kind) for kind in dict.fromkeys(kinds)} if given else {}
    names = {key for keys in found.values() for key in keys or ()}
    # SUB-46: keys that no class reads; certain only where the keys of all classes are known
    strange = [key for key in given if key not in names]
    if strange and None not in found.values():
        told = [f"{kind.__name__} reads {_listed(keys)}" for kind, keys in found.items() if keys or issubclass(kind, Codec)]
        raise ValueError(
            f"'codec_extra_parameters' must hold what the job's codecs read, got {strange[0]!r}"
            f"{did_you_mean(strange[0], names) or '.'} {', '.join(told)}."
        )


def warn_of_unread(given: Mapping[Hashable, Any], unread: Iterable[Iterable[int]], kinds: Iterable[type[Any]]) -> None:
    """Name, at the end of a job, the parameters that no codec has read.

    Args:
        given: the parameters of the job.
        unread: of each node, the places of those that nothing there has read.
        kinds: the classes of the codecs.
    """
    # of all nodes: a server's codecs read other parameters than the workers'
    by_all = set.intersection(*map(set, unread))
    names = {key for kind in kinds for key in reads(kind) or ()} if by_all else set()
    told = [f"{key!r}{did_you_mean(key, names - given.keys())}" for place, key in enumerate(given) if place in by_all]
    if told:
        _log.warning("No codec has read these of 'codec_extra_parameters': %s", ", ".join(told))


def reads(kind: type[Any]) -> Collection[Hashable] | None:
    """Return the keys that a class reads; None for a class of a user that does not declare them.

    A shipped composition asks for all of its own when its parts are made; other shipped classes declare them.
    """
    if not is_ours(kind):
        return kind.traits.parameters if issubclass(kind, Codec) and "traits" in vars(kind) else None
    composition = getattr(kind, "composition", None)
    if composition is not None:
        with GlobalSettings.use(IIDBlockAssignment(4)) as settings:
            composition.make()
        return settings.parameters.asked
    return (kind.traits.parameters or ()) if issubclass(kind, Codec) else ()


def _listed(keys: Collection[Hashable] | None) -> str:
    return " and ".join(repr(key) for key in sorted(keys or (), key=str)) or "none"
