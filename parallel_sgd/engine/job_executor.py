"""Common part of the executors of workers and of the parameter server: asking for the job's parts, and the exchange."""

from __future__ import annotations

import logging
import os
import platform
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Final

from network.clock import SystemClock
from network.nodes import NodeAssignment
from nn.data import load_arrays
from nn.dataset import checksum_of
from nn.dataset.interface import AbsDataset, Arrays
from nn.threads import describe_blas, has_bits
from rpc import AbsExecutable, Communication, ReplyPackage
from rpc.job import KERNEL_VARIABLES
from rpc.support.files import keep_configuration
from rpc.support.processors import usable_cores

from ..checkpoint.agree import StartPoint, begin, own_store
from ..checkpoint.keeper import Keeper
from ..checkpoint.snapshot import versions
from ..checkpoint.state import ModelFile, Resumption
from ..options.fields import CODE
from ..options.job_options import PlainOptions, options
from ..record.identity import own_identity
from ..record.spared import spared
from .accounts import NO_ACCOUNTS
from .channel import Parameter_Server
from .exchange import Participant
from .fault_injection import FaultInjector, disturbed, injected
from .plan import WorkerPlan, reassigned
from .socket_channel import can_do_without, close_gracefully, run_process

SETTING, MODEL, OPTIMIZER = "net_setting", "net_model", "net_optimizer"
DATA, MISC, EXTRA = "data_package", "misc_package", "extra_package"
SAMPLES, TRANSFER, CHECKPOINT = "data_samples", "net_transfer", "net_checkpoint"
TELLS: Final = "identity: "
"""Begin of a request that asks for nothing: the driver writes the rest down, the identity of the process."""
RECORD = "record"
"""Key in MISC of the record of the run that nodes keep."""
FAREWELL_SECONDS = 2.0
# a callback or table that fails at every epoch must not make the result a large one
_MOST_REMARKS: Final = 100


class JobExecutor(AbsExecutable):
    """Executor on a node of a P-SGD job. TRANSFER is the last thing that it asks for."""

    first_requests: ClassVar[tuple[str, ...]]

    def __init__(self, node_id: int, working_group: Sequence[int], initializer_id: int) -> None:
        super().__init__(node_id, working_group, initializer_id)
        self._parts: dict[str, Any] = {}
        self._asked: list[str] = []
        self._result: dict[str, Any] = {}
        self._remarks: list[str] = []  # on errors after training had its result
        self._begin = StartPoint()
        self._accounts = NO_ACCOUNTS

    def requests(self) -> Sequence[str]:
        # with the first requests, so that the submitter knows the process of an attempt that fails before it begins
        self._asked = [f"{TELLS}{own_identity()}", *self.first_requests]
        return self._asked

    def satisfy(self, replies: Sequence[Any]) -> Sequence[str]:
        """Take the replies; then ask for the missing parts, and last for the codecs."""
        answers = zip(self._asked, replies, strict=True)
        # replies come in the order of the requests; that to the identity is empty
        self._parts.update((asked, reply) for asked, reply in answers if not asked.startswith(TELLS))
        # the codecs last (SUB-5): when TRANSFER is asked for, all else is there, and the submitter may count on that
        self._asked = [] if TRANSFER in self._parts else [*self._further_requests(), TRANSFER]
        return self._asked

    def _further_requests(self) -> Sequence[str]:
        """Return the requests that follow the first ones: the checkpoint, if the submitter has one for this node."""
        return (CHECKPOINT,) if self._parts[MISC]["sends_checkpoint"] and CHECKPOINT not in self._parts else ()

    def ready(self) -> bool:
        return TRANSFER in self._parts

    def over_tcp(self) -> Collection[int]:
        """Return the nodes to which a link has faults: packets in memory would not meet the faults."""
        return disturbed(str(self._options.fault), self.node_id)

    @cached_property
    def _options(self) -> PlainOptions:
        """Options of the job: plain values, objects that came with their code, and the parameters of its codecs."""
        # keys come with the code of the job, values as a resource of this node
        parameters = dict(zip(self.shipped["codec_parameters"], self._parts[EXTRA], strict=True))
        code = {name: self.shipped[name] for name, about in options() if about.travels == CODE}
        return replace(options_of(self._parts), **code, codec_extra_parameters=parameters)

    def _plan(self) -> WorkerPlan:
        setting = self._parts[SETTING]
        # the workers of this attempt: after a loss fewer than the job began with
        assignment = reassigned(self.shipped["assignment"], setting["workers"])
        limits = tuple(setting["limits"])
        return WorkerPlan(
            assignment, self._options, self.shipped["default_codec"], setting["order"], setting["attempt"], limits
        )

    @property
    def _server_keeps(self) -> bool:
        return bool(self._parts[SETTING]["server_keeps"])

    def _resume(self, com: Communication, plan: WorkerPlan) -> Resumption | None:
        """Agree with the others on the state at which this node goes on; None: at the beginning."""
        # a server that remembers nothing takes no part in the agreement
        server = Parameter_Server if self._server_keeps else None
        misc, given = self._parts[MISC], self._parts.get(CHECKPOINT)
        self._begin = begin(com, plan.assignment.nodes, server, misc["resume"], given, misc["start_seconds"], self.logger)
        found = self._begin.resumption
        # a submitter that has sent the checkpoint has told it; of a choice of the nodes, it knows nothing else
        if found is not None and not found.whole and com.node_id == min(plan.assignment.nodes) and (com.attempt or not given):
            self._remarks.append(self._begin.said)
        return self._begin.resumption

    def start(self, com: Communication) -> None:
        """Agree with the others on where to begin, then do this node's part, while the faults that the job asks for happen."""
        with injected(str(self._options.fault), self._options.seed, com) as faults:
            plan = self._plan()
            if plan.options.bits is not None and not has_bits(plan.options.bits):
                raise RuntimeError(f"This node cannot give the 'bits' {plan.options.bits!r}: it has {describe_blas()}.")
            # before training: it is wanted most for a job that fails
            keep_description(
                com.output_directory.parent, describe_node(self.node_id, com.attempt, self._parts, plan), self.logger
            )
            self._take_part(com, plan, self._resume(com, plan), faults)

    @abstractmethod
    def _take_part(
        self, com: Communication, plan: WorkerPlan, resumption: Resumption | None, faults: FaultInjector | None
    ) -> None: ...

    def _suspects(self, com: Communication) -> Callable[[], Collection[int]]:
        """Return a function for the nodes about which the failure detector will say more: those that it suspects; where
        something follows from its verdicts, each node that is late, so that a time-out waits for them in any case.
        """
        # under restart or shrink the verdict decides what follows, and a TimeoutError would come before it
        if self._parts[MISC]["awaits_verdict"]:
            return lambda: com.available_clients
        return com.suspects

    def _keeper(self, com: Communication, plan: WorkerPlan) -> Keeper | None:
        if plan.options.checkpoint_every is None:
            return None
        return Keeper(own_store(com, plan.options.keep_every), plan.header(com.job, self.node_id), self._model_file(com))

    def _model_file(self, com: Communication) -> ModelFile | None:
        """Return where the model of each checkpoint goes; a parameter server has none."""
        return None

    def _run(self, com: Communication, plan: WorkerPlan, participant: Participant) -> dict[str, float]:
        """Drive `participant` to its end, take leave, and keep its result and accounts.

        Raises: PeerLost at once when a node is lost and the job cannot do without; each error of the participant.
        """
        exchange, bank, controller = participant.exchange, participant.exchange.bank, com.controller
        # nodes that agreed sooner may have begun already
        for sender, message in self._begin.early:
            exchange.deliver(sender, message)
        # only now: packets that came before are those in `early`, which must be first
        com.on_block = exchange.deliver

        def can_go_on(lost: set[int]) -> bool:
            return (
                # by redundancy (SUB-31): another node holds each block, and every codec can do with the first copy that comes
                self._parts[MISC]["carries_on"] and bank.takes_first_copy and can_do_without(plan.assignment.block_2_node, lost)
            )

        result = run_process(participant.process, controller, SystemClock(), can_go_on)
        if self.node_id == Parameter_Server and controller.lost and not can_go_on(set(controller.lost)):
            raise controller.loss_of(min(controller.lost))  # the last worker did not leave, it was lost
        self._result = {"result": result, "unheard": [], "unread": [], "begin": self._begin.said, "numerics": ""}
        # without numbers at first: an error below must not leave a result that lacks the accounts
        self._keep_accounts()
        with spared(f"The farewell of node({self.node_id})", self._remarks):
            # after the result was kept: a peer that takes no leave must not cost it (RUN-8)
            self._result["unheard"] = close_gracefully(controller, FAREWELL_SECONDS)
        with spared(f"The accounts of node({self.node_id})", self._remarks):
            # after the farewell, in which the last packets are counted
            self._accounts = bank.accounts.close(bank.staleness)
            self._keep_accounts()
        with spared(f"The description of node({self.node_id})", self._remarks):
            self._result |= {"unread": bank.unread_parameters, "numerics": describe_blas()}
        return result

    def _keep_accounts(self) -> None:
        """Put the accounts into the result."""
        told = self._accounts
        self._result |= {"accounts": [list(each) for each in told], "times": list(told.times), "staleness": told.staleness}

    def _log_accounts(self, com: Communication) -> None:
        with spared("The log of the accounts", self._remarks):
            self.logger.info("Bytes sent: %s, bytes read: %s.", com.bytes_sent, com.bytes_read)
            for line in self._accounts.describe():
                self.logger.info(line)

    def done(self) -> ReplyPackage:
        # bounded: remarks travel in the result message
        return ReplyPackage({**self._result, "remarks": self._remarks[:_MOST_REMARKS]})


def samples_at_hand(cache: Path, checksum: str, recipe: tuple[type[Any], dict[str, Any]] | None) -> Arrays | None:
    """Load a data set from the cache, else, if a built-in one is named, from where it usually lies; return None where it is not
    on this node.

    Raises: OSError or ValueError where it cannot be loaded, TypeError for a recipe of something else.
    """
    arrays: Arrays | None = load_arrays(cache, checksum)
    if arrays is None and recipe is not None:
        kind, config = recipe
        if not issubclass(kind, AbsDataset):  # a recipe from the wire is called only if it is of this class
            raise TypeError(f"A data set must be an AbsDataset, got {kind.__qualname__}.")
        # never downloads: many workers would fetch the same file at the same time, and one that lacks it asks the submitter
        try:
            loaded = kind(**config).load(download=False)
        except ImportError as error:  # an extra that the submitter has, such as Pillow
            raise ValueError(f"A data set cannot be loaded on this node: {error}") from error
        # equal arrays, not just an equal name: files of a data set differ between machines
        arrays = loaded if checksum_of(loaded) == checksum else None
    return arrays


def options_of(resources: Mapping[str, Any]) -> PlainOptions:
    """Return the options of a job that are plain values, from its resources; the others have their defaults."""
    return PlainOptions(NodeAssignment(), **resources[SETTING]["options"])


_LARGE: Final = ("net_model", "data_samples", "net_checkpoint", "extra_package")  # no settings, or values without their names
_VARIABLES: Final = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", *KERNEL_VARIABLES, "MKL_NUM_THREADS")


def _without_record(part: Any) -> Any:
    return {name: value for name, value in part.items() if name != RECORD} if isinstance(part, dict) else part


def describe_node(node: int, attempt: int, parts: Mapping[str, Any], plan: WorkerPlan) -> dict[str, Any]:
    """Describe the settings of the job as this node has them, the blocks of each node, and the libraries and the machine that
    compute here.
    """
    assignment = plan.assignment
    return {
        "node": node,
        "attempt": attempt,
        "settings": {name: _without_record(part) for name, part in parts.items() if name not in _LARGE},
        "codec_parameters": {k if isinstance(k, str) else repr(k): value for k, value in plan.codec_parameters.items()},
        "gradient_descent": {"type": plan.options.gd_type.__name__, "exchange": plan.options.op_type.__name__},
        "assignment": {
            "type": type(assignment).__name__,
            "redundancy": assignment.redundancy,
            # plain integers: those of NumPy cannot be written as JSON
            "blocks_of_nodes": [[int(block) for block in blocks] for blocks in assignment.node_2_block],
        },
        "versions": {**versions(), "numerics": describe_blas()},
        "machine": {
            "host": platform.node(),
            # not `platform.platform()`, which starts a process to ask for the processor
            "system": "-".join(filter(None, (platform.system(), platform.release(), platform.machine(), *platform.libc_ver()))),
            "cores": usable_cores(),
            "variables": {name: os.environ[name] for name in _VARIABLES if name in os.environ},
        },
    }


def keep_description(folder: Path, description: Mapping[str, Any], logger: logging.Logger) -> None:
    """Write the description into the folder of the job; training does not depend on that, so a full disk is a warning."""
    try:
        keep_configuration(folder, description)
    except OSError as error:
        logger.warning("The configuration cannot be kept for later: %s.", error.strerror)
