"""Nodes that the options name."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable

from network.controller import Controller
from network.errors import NetworkError
from network.key_files import by_flag
from network.nodes import NodeAssignment
from network.request import Request
from rpc.elastic import parse_hosts
from rpc.launch import Offer, launcher_of
from rpc.support.console import show

from ..nodes import parse_worker, workers_in
from ..options.checks import positive
from .output import program_name

LAUNCHER = "launcher"
"""Word of --discovery for the agents that --launch finds."""


def launcher_from(options: argparse.Namespace) -> Offer | None:
    """Return the launcher that --launch names, if it is given. With --wait its agents may take that long to come up, else as
    long as the launcher has it.

    Raises: ValueError for options that do not go with it, and for a text that names no launcher.
    """
    if options.launch is None:
        if options.discovery == LAUNCHER:
            raise ValueError(f"--discovery {LAUNCHER} needs --launch, which says where the workers come from.")
        return None
    if options.local is not None:
        raise ValueError(f"--launch {options.launch} and --local {options.local} both say where the workers come from.")
    # 0 is no time to come up in, so the launcher's own counts
    return launcher_of(options.launch, options.key_file, options.wait or None)


def listed_nodes(options: argparse.Namespace) -> NodeAssignment:
    """Return the first workers of the node file, with the key; without -n one, and a line tells if there are more.

    Raises: ValueError naming file and expectation, FileNotFoundError.
    """
    count = 1 if options.worker_count is None else int(options.worker_count)
    found = parse_worker(count, options.ps, options.workers)
    listed, _ = workers_in(options.workers)
    if options.worker_count is None and listed > count:
        instead = f"-n {listed} takes {'both' if listed == 2 else 'all'}"
        text = f"{options.workers} lists {listed} workers; the first one alone trains, as -n is not given: {instead}."
        show(sys.stderr, f"{program_name()}: {text}\n")
    found.key_file = options.key_file
    return found


def all_nodes(options: argparse.Namespace) -> NodeAssignment:
    """Return all workers of the node file, or that --launch finds, unless fewer are asked for, and the parameter server of the
    file if it has one, with the cluster's key.

    Raises: as `listed_nodes`; ValueError for a launcher that would start workers of its own; NetworkError.
    """
    offer = launcher_from(options)
    if offer is not None:
        return _found_nodes(options, offer)
    count, server = workers_in(options.workers)
    # not `or`: 0 is a mistake, and no wish for all of them
    asked = count if options.worker_count is None else int(options.worker_count)
    found = parse_worker(asked, options.ps or server, options.workers)
    found.key_file = options.key_file
    return found


def known_nodes(options: argparse.Namespace) -> NodeAssignment:
    """Return `all_nodes` for a command that asks them about earlier jobs, of which workers of its own would know nothing.

    Raises: as `all_nodes`.
    """
    try:
        return all_nodes(options)
    except FileNotFoundError:
        raise FileNotFoundError(
            f"The node file {options.workers} does not exist; name the one with the workers to ask by --workers FILE. Jobs on "
            "workers of this machine (--local, local_workers) end with their program, and 'psgd runs' lists what they left."
        ) from None


def _found_nodes(options: argparse.Namespace, offer: Offer) -> NodeAssignment:
    if not offer.launcher.lasting:
        raise ValueError(f"--launch {options.launch} starts workers of its own, which know of no earlier job.")
    if options.worker_count is not None:
        positive("worker_cnt", options.worker_count)
    hosts = parse_hosts("\n".join(offer.launcher.discover()))[: options.worker_count]
    if not hosts:
        raise NetworkError(f"--launch {options.launch} finds no workers.")
    nodes = NodeAssignment(options.key_file)
    for number, host in enumerate(hosts):
        nodes.add(number, host.address)
    return nodes


def reach_all(options: argparse.Namespace, suffice: Callable[[Controller], bool] | None = None) -> Controller:
    """Connect with those of `known_nodes` that have agents which can be reached; print an error for each of the others.

    Args:
        options: name the nodes.
        suffice: tells whether those that were reached are all that have a part in the job; then nothing is printed.

    Raises: NetworkError when there is none.
    """
    com, errors = Request().reach(known_nodes(options))
    # those that can be reached will do; the user learns of the others
    if not (errors and com.sessions and suffice is not None and suffice(com)):
        for error in errors.values():
            show(sys.stderr, f"{program_name()}: {by_flag(str(error))}\n")
    if not com.sessions:
        com.close()
        raise NetworkError("None of the workers can be reached.")
    return com
