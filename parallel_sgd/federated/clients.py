"""Clients of federated learning, the option `clients=` of a job."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Sequence
from typing import Any, Final, Literal

from nn import arguments
from nn.arguments import Configurable
from nn.extension import is_ours, signature_of
from nn.gradient_descent import SGDOptimizer
from nn.gradient_descent.interface import IGradientDescent
from nn.optimizer import IOptimizer, OpContainer

from .clock import ClientClock
from .samplers import BufferedSampler, FixedSampler, Sampler
from .sizes import Sizes, checked_sizes
from .splits import IIDSplit, OwnSplit, Split
from .terms import ClientTerm

__all__ = ["Clients"]

Weigh = Literal["samples", "equal", "steps"]
Own = Literal["own"]
OWN: Final[Own] = "own"
"""Value of `test` for the test samples that a data set has of each client."""
WEIGHS: Final[tuple[Weigh, ...]] = ("samples", "equal", "steps")


class Clients(Configurable, configured=True):
    """Population of clients, of which each round trains a sample: `parallel(nodes, clients=Clients(100, sample=10))`.

    A batch of the job is a round, and an epoch `rounds` of them. In a round each chosen client starts from the global model,
    trains `epochs` passes over its own samples in batches of `block_size` by a new rule of `gd_type` and `gd_params`, and
    gives the change of its parameters; the mean of these changes, weighed by `weigh`, is the gradient of the `server` rule.
    Who is chosen and in which order a client trains depends on the seed of the job, the round and the sizes alone, so results
    have equal bits on any number of workers.

    `SGDOptimizer(1.0)` as the server is FedAvg (McMahan et al., 2017), `ADAMOptimizer` FedAdam (Reddi et al., 2021), `prox`
    above 0 FedProx (Li et al., 2020), `weigh="steps"` FedNova (Wang et al., 2020), `control_variates=True` SCAFFOLD
    (Karimireddy et al., 2020, option II).

    Args:
        count: number of clients.
        sample: clients of a round: a number, or a sampler such as `PoissonSampler(0.1)`.
        split: which client has which samples: `IIDSplit()`, `ShardSplit(2)`, `DirichletSplit(0.3)`, `RowsSplit(rows)`, or a
            split of your own; by default as a data set of clients says (`OwnSplit`), of any other one at random (`IIDSplit`).
        sizes: samples of each client: a list of numbers, or a distribution such as `LogNormalSizes(1.0)`; by default the
            split decides.
        server: rule that gets the mean change of the parameters as its gradient.
        epochs: passes of a chosen client over its own samples.
        rounds: rounds of an epoch, after which the model is evaluated; by default as many as visit each client once on
            average.
        weigh: "samples" weighs clients by their samples, "equal" all alike, "steps" by samples with each change divided by
            the number of its steps (FedNova).
        prox: factor mu of the proximal term: each local gradient gets mu (w - w_global) added.
        control_variates: whether each client i keeps c_i, the mean of its gradients when it trained last, and each local
            gradient gets c - c_i added, c being the mean of all c_i (SCAFFOLD).
        personal: names of layers, variables or statistics whose values stay with each client: it begins with those of the
            model, keeps its own from round to round, and sends no change of them (FedPer, Arivazhagan et al., 2019; of layers
            `BatchNorm` FedBN, Li et al., 2021).
        term: term of your own in the objective of each client, or None.
        stragglers: probability that a chosen client does less work: a number of passes that is drawn from 1 to `epochs`, all
            alike (FedProx, Li et al., 2020).
        test: share of each client's samples, from 0 to below 1, that is held out of its training, or "own" for the test samples
            that a data set of clients has of each, such as `test/` of LEAF: after each epoch the model is evaluated on them
            client by client, with the client's own personal variables (`history.client_tests`).
        clock: speeds, bandwidths and times of the clients, from which the seconds of a round follow; None: rounds have none.

    >>> Clients(100, sample=10).rounds
    10
    """

    def __init__(
        self,
        count: int,
        sample: int | Sampler,
        split: Split | None = None,
        sizes: Sizes | Sequence[int] | None = None,
        server: IGradientDescent | None = None,
        epochs: int = 1,
        rounds: int | None = None,
        weigh: Weigh = "samples",
        prox: float = 0.0,
        control_variates: bool = False,
        personal: str | Sequence[str] = (),
        clock: ClientClock | None = None,
        term: ClientTerm | None = None,
        stragglers: float = 0.0,
        test: float | Own = 0.0,
    ) -> None:
        self.count = arguments.integer(self, "count", count, minimum=1)
        sampler = sample if isinstance(sample, Sampler) else FixedSampler(arguments.integer(self, "sample", sample, minimum=1))
        self.sample = sampler
        self.slots = arguments.integer(sampler, "slots()", sampler.slots(self.count), minimum=1)
        self.split: Split | None = None if split is None else arguments.instance(self, "split", split, Split)
        self.sizes = checked_sizes(sizes, self.count)
        self._check_sizes(self.split)
        self.server: IGradientDescent = (
            SGDOptimizer(1.0) if server is None else arguments.instance(self, "server", server, IGradientDescent)
        )
        self.epochs = arguments.integer(self, "epochs", epochs, minimum=1)
        # so many rounds let a client be drawn once, on average, as an epoch does for a sample
        usual = max(round(self.count / sampler.expected(self.count)), 1)
        self.rounds = usual if rounds is None else arguments.integer(self, "rounds", rounds, minimum=1)
        self.weigh: Weigh = arguments.one_of(self, "weigh", weigh, WEIGHS)
        self.prox = arguments.number(self, "prox", prox, 0)
        self.control_variates = bool(arguments.instance(self, "control_variates", control_variates, bool))
        names = (personal,) if isinstance(personal, str) else personal
        if not isinstance(names, Sequence) or not all(isinstance(each, str) for each in names):
            raise TypeError(f"Clients 'personal' must be names of layers, variables or statistics, got {personal!r:.80}")
        self.personal = tuple(names)
        self.clock: ClientClock | None = None if clock is None else arguments.instance(self, "clock", clock, ClientClock)
        self.term: ClientTerm | None = None if term is None else arguments.instance(self, "term", term, ClientTerm)
        self.stragglers = arguments.share(self, "stragglers", stragglers)
        self.test = self._checked_test(test)
        # nodes make equal ones by class and arguments, so each must tell the arguments that it was made of
        for name in ("sample", "split", "sizes", "server", "term"):
            _check_told(name, getattr(self, name))
        if self.stragglers and self.clock is not None:
            raise ValueError(
                "Clients 'stragglers' is for clients without a clock; on a clock TimedSampler(deadline=..) leaves out the slow "
                "ones, got both"
            )
        if self.clock is not None:
            self.clock.check(self.count)
        elif sampler.needs_clock:
            raise ValueError(
                f"Clients 'sample' {sampler!r} looks at the times of clients, which Clients(clock=ClientClock('5ms', "
                f"up='1Mbit/s')) gives them, got no clock"
            )
        if self.control_variates and isinstance(sampler, BufferedSampler):
            raise ValueError(
                "Clients 'control_variates' needs clients that begin with the model of their round, got BufferedSampler: take "
                "a number, or TimedSampler"
            )
        # no arguments: `of_data` and `knowing` fill them in once the samples are dealt
        self.known: tuple[int, ...] | None = None
        self.own_sizes: tuple[int, ...] | None = None
        self.own_tests: tuple[int, ...] | None = None
        self.bytes_up = self.bytes_down = 0

    def container(self, op_type: type[IOptimizer]) -> OpContainer:
        """Return the container of the server's rule, which all workers apply to the merged changes.

        Args:
            op_type: the optimizer of the job.
        """
        return OpContainer(op_type, type(self.server), self.server.get_config())

    @property
    def dealer(self) -> Split:
        """Split that deals the samples."""
        return IIDSplit() if self.split is None else self.split

    def _check_sizes(self, split: Split | None) -> None:
        if self.sizes is not None and split is not None and not split.takes_sizes:
            raise ValueError(
                f"Clients 'sizes' goes with IIDSplit and DirichletSplit; {type(split).__name__} decides itself how many "
                f"samples each client has"
            )

    def _checked_test(self, test: float | Own) -> float | Own:
        if isinstance(test, str) and test == OWN:
            if not (self.split is None or isinstance(self.split, OwnSplit)):
                raise ValueError(
                    f"Clients 'test' can be 'own' where clients have the samples that the data set gives them, without a "
                    f"split; with {self.split!r} take a share, such as test=0.2"
                )
            return OWN
        if isinstance(test, str):
            raise ValueError(f"Clients 'test' must be a number >= 0 and < 1, or 'own', got {test!r}")
        return arguments.number(self, "test", test, 0, 1)

    def of_data(self, data: object) -> Clients:
        """Return these clients with the split that they have on a data set.

        Args:
            data: the data set; it may have `client_sizes`, the number of samples of each client, and `client_test_sizes`, that
                of its test samples.

        Raises: ValueError where the data set has other clients, or none although `OwnSplit` or `test` asks for them.
        """
        sizes = None if getattr(data, "client_sizes", None) is None else _counts(data, "client_sizes")
        if sizes is None and self.test == OWN:
            raise ValueError(
                f"Clients 'test' can be 'own' for a data set that knows its clients, such as nn.dataset.LEAF, got "
                f"{type(data).__name__}: take a share, such as test=0.2"
            )
        if sizes is None and isinstance(self.split, OwnSplit):
            raise ValueError(f"Clients 'split' OwnSplit needs a data set that knows its clients, got {type(data).__name__}")
        if sizes is None or not (self.split is None or isinstance(self.split, OwnSplit)):
            return self
        own = OwnSplit()
        self._check_sizes(own)
        if len(sizes) != self.count:
            raise ValueError(
                f"Clients 'count' must be {len(sizes)}, the clients of {type(data).__name__}, got {self.count}; a split deals "
                f"its samples anew"
            )
        made = self.knowing(sizes)
        vars(made).update(split=own, own_sizes=sizes, own_tests=self._tests_of(data) if self.test == OWN else None)
        return made

    def _tests_of(self, data: object) -> tuple[int, ...]:
        tests = _counts(data, "client_test_sizes")
        if len(tests) != self.count or not any(tests):
            has = "no test samples of any" if len(tests) == self.count else f"{len(tests)} such numbers"
            raise ValueError(
                f"Clients 'test' can be 'own' for a data set with 'client_test_sizes', test samples of its {self.count} "
                f"clients; {type(data).__name__} has {has}: take a share, such as test=0.2"
            )
        return tests

    def knowing(self, sizes: Sequence[int], bytes_up: int = 0, bytes_down: int = 0) -> Clients:
        """Return these clients with all that rounds depend on: the sizes that the split has dealt, which every node must find
        again, and the bytes that count on the clock.

        Args:
            sizes: samples of each client.
            bytes_up: bytes of the change of a client.
            bytes_down: bytes of the model that it gets.
        """
        made = object.__new__(type(self))  # without the constructor, whose checks these clients have passed
        known = tuple(int(each) for each in sizes)
        vars(made).update(vars(self), known=known, bytes_up=bytes_up, bytes_down=bytes_down)
        return made

    def identity(self, seed: int) -> str:
        """Return the identity of the population: a training can go on with the same one only.

        Args:
            seed: that of the job.
        """
        text = ",".join(map(str, self.known or ()))
        digest = hashlib.sha256(text.encode()).hexdigest()[:16]
        clock = "" if self.clock is None else f", {self.clock.identity}"
        held = ", own test samples held out" if self.test == OWN else f", {self.test:g} held out" if self.test else ""
        return f"{self.count} clients, {self.sample!r}, {self.dealer!r}, seed {seed}, sizes {digest}{held}{clock}"

    def argument(self, name: str) -> Any:
        if name == "sample" and type(self.sample) is FixedSampler:
            return self.sample.number
        return super().argument(name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Clients) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))


def _counts(data: object, name: str) -> tuple[int, ...]:
    """Return the samples of each client that a data set tells. Raises: ValueError for a negative number."""
    counts = tuple([int(each) for each in getattr(data, name, ())])
    for client, count in enumerate(counts):
        if count < 0:
            raise ValueError(f"'{name}' of {type(data).__name__} must be >= 0, got {count} for client {client}")
    return counts


def _check_told(name: str, part: object) -> None:
    """Check that a part of a user's class tells the arguments of its constructor, by which nodes make an equal one and a sweep
    tells runs apart.

    Raises: TypeError naming the argument, with the remedy.
    """
    # the constructor may be a base's: that class names the arguments
    maker = next(kind for kind in type(part).__mro__ if "__init__" in vars(kind))
    if not isinstance(part, Configurable) or is_ours(maker):
        return
    told, fixed = part.get_config(), (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    for argument in list(signature_of(vars(maker)["__init__"]).parameters.values())[1:]:
        if argument.kind not in fixed and argument.name not in told:
            kind, base = maker.__name__, maker.__bases__[0].__name__
            raise TypeError(
                f"Clients {name!r} {kind} must tell its argument {argument.name!r}: keep it under this name, and write "
                f"class {kind}({base}, configured=True)"
            )
