"""Agents in the pods of a StatefulSet, found by the names that Kubernetes gives them in DNS; see deploy/kubernetes.yaml."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable

from network.errors import NetworkError
from network.nodes import DEFAULT_PORT, Address

from ..support.logs import HEADLINE, SUBMIT_LOGGER, get_logger
from .launcher import KeyFile, Launcher, Offer, await_agents, checked_count, checked_limit

START_SECONDS = 300.0  # an image may have to be fetched first
_LOOK_SECONDS = 0.5
_SERVICE = re.compile(r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*")
_UNKNOWN = (socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME))
_log = get_logger(SUBMIT_LOGGER)

Resolve = Callable[[str], list[str]]
"""Lookup of the IP addresses of a name, none for one that does not exist; NetworkError when no name server answers."""


def resolve(name: str) -> list[str]:
    """Look up the IP addresses of `name`, each once, as the system's resolver has them now."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        # a pod that is not ready has no name: that is no fault, but one to be waited for
        if error.errno in _UNKNOWN:
            return []
        raise NetworkError(f"The name {name} cannot be looked up: {error.strerror}.") from error
    # a resolver may tell one address several times
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


class KubernetesLauncher(Launcher):
    """Launcher that waits for the pods of a StatefulSet behind its headless service, which has the same name.

    DNS has a pod as long as it is ready. A job is given the names of pods, `psgd-0.psgd`, which stay when one is started anew;
    a discovery the pods' own addresses, so that a new pod is a new host.

    Args:
        service: `psgd`, or `psgd.other-namespace`.
        port: on which the agents listen.
        key_file: the key that they were started with.
        limit: how many seconds they may take to be ready.
        resolve: looks names up.
    """

    lasting = True

    def __init__(
        self,
        service: str,
        port: int = DEFAULT_PORT,
        *,
        key_file: KeyFile = None,
        limit: float = START_SECONDS,
        resolve: Resolve = resolve,
    ) -> None:
        if not _SERVICE.fullmatch(service):
            raise ValueError(f"KubernetesLauncher 'service' must be a name as in psgd or psgd.namespace, got {service!r}.")
        self.key_file, self._limit = key_file, checked_limit("KubernetesLauncher", limit)
        self._service, self._port, self._resolve = service, port, resolve

    def start(self, count: int) -> list[Address]:
        """Wait until the first `count` pods are ready.

        Raises: TimedOut with those that are not; NetworkError when DNS does not answer.
        """
        checked_count("kubernetes launcher", count)
        # the first ones: a StatefulSet starts them in this order
        pods = [f"{self._service.partition('.')[0]}-{number}.{self._service}" for number in range(count)]
        missing = [pod for pod in pods if not self._resolve(pod)]
        if missing:
            _log.info("Waiting for the pods %s.", ", ".join(missing), extra=HEADLINE)
            await_agents(
                lambda: [pod for pod in missing if not self._resolve(pod)],
                lambda left: not left,
                lambda left: f"the pods {', '.join(left)} to be ready",
                self._limit,
                _LOOK_SECONDS,
            )
        return [Address(pod, self._port) for pod in pods]

    def discover(self) -> list[str]:
        return [str(Address(ip, self._port)) for ip in self._resolve(self._service)]


def offer(where: str, key_file: KeyFile, wait: float | None) -> Offer:
    """Offer `kubernetes:SERVICE` or `kubernetes:SERVICE:PORT`."""
    try:
        service, port = Address.parse(where)
    except ValueError as error:
        raise ValueError(f"The launcher 'kubernetes' needs a service, as in kubernetes:psgd. {error}") from None
    return Offer(KubernetesLauncher(service, port, key_file=key_file, limit=START_SECONDS if wait is None else wait))
