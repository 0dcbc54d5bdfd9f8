"""Base class of operations: shape inference, forward and backward on arrays, nothing else."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import numpy as np

from nn.arrays import BATCH, Array, OwnMemory, Scratch, Shape

Other = TypeVar("Other", contravariant=True)
Result = TypeVar("Result", covariant=True)


class Applicable(Protocol[Other, Result]):
    """Argument of an operation in a call: a value of a graph, which makes the node."""

    def apply(self, operation: Operation, *others: Other) -> Result:
        """Return the node that applies `operation` to this value and the others."""


MaskOf: TypeAlias = Literal["none", "first", "all"]


class Mode(NamedTuple):
    """Mode of one run of a plan.

    Args:
        training: whether the run is for training.
        key: key of every random draw of this run: (seed, epoch, batch, block).
    """

    training: bool = False
    key: tuple[int, ...] = (0, 0, 0, 0)


class Operation(ABC):
    """A differentiable function of arrays.

    An instance in a graph holds its configuration only. A plan works with a copy of it, tells that copy the shapes once
    (`allocate`) and then calls `forward` and `backward` many times; the memory that these need beside their arguments is
    allocated there. Neither keeps an argument.

    To add one: a class beside its kin, its name in `nn/operation/__init__.py`, a row in `tests/contract/nn_rows/operations.py`
    and its form in ONNX files in `nn/onnx/operators`; tests demand the last two.
    """

    in_place: ClassVar[bool] = False
    """`out` of forward may be the memory of the first input, and `wanted[0]` of backward that of `gradient`."""

    aliases: ClassVar[bool] = False
    """It changes no element, so that its output may be the memory of its first input even where that is read later. A derived
    class with a `forward` of its own has to set it again."""

    reads_inputs: ClassVar[bool] = True
    """Backward reads the values of the inputs, so they must not have been overwritten."""

    reads_output: ClassVar[bool] = False
    """Backward reads the value of the output, so it must not have been overwritten."""

    differentiable: ClassVar[bool] = True
    """Whether any input can have a gradient other than 0; backward is not called where none has."""

    multiplies: ClassVar[bool] = False
    """Its time goes into products of matrices."""

    sums_by_blas: ClassVar[bool] = False
    """Numbers of a sample are sums of the BLAS over rows, whose last bits depend on how many rows it gets."""

    by_sample: ClassVar[Sequence[str]] = ()
    """Names of the attributes that `begin` sets: arrays with a row for each sample, and values for all of them. Slices of the
    batch can then share out the draws of the whole. A derived class with a `begin` of its own has to name them again."""

    mask_of: ClassVar[MaskOf] = "none"
    """The inputs with steps that the steps of the output belong to, so that it has their masks."""

    bounds: ClassVar[tuple[float, float] | None] = None
    """The least and the greatest value that it gives, for any input; None where that is not known. By these `setup` checks
    whether a loss can work with the end of a model."""

    scratch: Scratch = OwnMemory()
    """Where `allocate` gets memory that is needed during one call of begin, forward or backward only. A plan sets it:
    operations that run one after the other share it, so its content at the beginning of a call means nothing."""

    #: Where `allocate` gets memory that lasts from forward to backward of one run. A plan sets it: plans share it, so its
    #: content at the beginning of forward means nothing.
    _lasting: Scratch = OwnMemory()

    block_factor: int = 1
    """How many times larger the blocks are in which an operation works. A plan sets it before `allocate` where several threads
    run at once: they meet at the interpreter's lock after each call, so fewer and larger calls save more than the cache."""

    frozen: bool = False
    """Whether variables that it takes were made to be trained, and none of them is. A plan sets it before `allocate`."""

    training: bool = True
    """Whether backward may follow forward. A plan that only predicts sets it to False before `allocate`."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # It may change elements, which would overwrite an input that others read.
        if "forward" in vars(cls) and "aliases" not in vars(cls):
            cls.aliases = False
        # It may prepare more than is named, which slices would lack.
        if "begin" in vars(cls) and "by_sample" not in vars(cls):
            cls.by_sample = ()

    @abstractmethod
    def infer(self, *shapes: Shape) -> Shape:
        """Return the shape of the output; -1 is an unknown batch axis. Raise ValueError naming shapes that do not fit."""

    def allocate(self, shapes: Sequence[Shape], output: Shape, dtype: np.dtype[Any]) -> None:  # noqa: B027
        """Prepare work space. Called once for each copy.

        Args:
            shapes: shapes of the inputs, all lengths known.
            output: shape of the output.
            dtype: type of all arrays, float32 or float64.
        """

    def splits(self, shapes: Sequence[Shape]) -> bool:
        """Return whether row i of the output depends on row i of the inputs only, for shapes with -1 at the batch axis.

        If so, a plan may run the operation on slices of the batch, one after the other or at the same time. Inputs
        without a batch axis are given to each slice; their gradients are added up.
        """
        return False

    def begin(self, mode: Mode, position: int) -> None:  # noqa: B027
        """Prepare one run.

        For operations that draw random numbers or tell training from inference. One that overrides this sees the whole batch
        in training, even where `splits` allows slices, unless it names its results in `by_sample`.

        Args:
            mode: whether the run is for training, and the key of its draws.
            position: the operation's place in the graph, which makes its draws its own.
        """

    def take_rows(self, whole: Operation, rows: slice) -> None:
        """Take over the rows that an operation on the whole batch has prepared for one run, in place of `begin`.

        Args:
            whole: an equal operation, allocated for the whole batch.
            rows: the samples of this one.
        """
        for name in self.by_sample:
            value = getattr(whole, name)
            setattr(self, name, value[rows] if isinstance(value, np.ndarray) else value)

    def changes_buffers(self, frozen: bool) -> bool:
        """Return whether backward in training changes the buffers among the inputs, for the `frozen` that a plan will set."""
        return True

    @abstractmethod
    def forward(self, inputs: Sequence[Array], out: Array) -> None:
        """Write the value of the operation.

        Args:
            inputs: arrays of the allocated shapes.
            out: takes the value.
        """

    @abstractmethod
    def backward(self, inputs: Sequence[Array], output: Array, gradient: Array, wanted: Sequence[Array | None]) -> None:
        """Write the gradient of each input into `wanted`, overwriting it.

        Args:
            inputs: those of forward.
            output: the result of forward.
            gradient: gradient of the loss for the output.
            wanted: memory for the gradient of each input; None marks an input that needs none. Where `in_place` is set,
                `wanted[0]` may share the memory of `gradient`, so it is written last.
        """

    def shares_gradients(self, shapes: Sequence[Shape]) -> Sequence[int]:
        """Return the inputs with gradients that, for a variable, `write_share` writes in shares that add up nothing."""
        return ()

    def write_share(self, index: int, inputs: Sequence[Array], gradient: Array, target: Array, share: int, shares: int) -> None:
        """Write one share of the gradient of an input, as `backward` writes the whole.

        Asked after the backward of everything else in a stage, of operations that are not `in_place`.

        Args:
            index: place of the input among the inputs, one of `shares_gradients`.
            inputs: those of forward.
            gradient: gradient of the loss for the output.
            target: memory for the whole gradient of the input.
            share: number of the share, from 0.
            shares: how many shares there are.
        """
        raise TypeError(f"{type(self).__name__} computes gradients as a whole")

    def surely_finite(self, index: int, inputs: Sequence[Array], gradient: Array) -> bool:
        """Return whether the gradient that backward wrote for an input is known to be finite without a look at it.

        Asked after the backward of the whole plan, so for operations that are not `in_place`: the arrays are as they were, and
        the answer follows from them. An operation that answers for its backward does not answer for that of a subclass, which
        defines both.

        Args:
            index: place of the input among the inputs.
            inputs: those of forward.
            gradient: gradient of the loss for the output.
        """
        return False

    def adding(self, inputs: Sequence[Array], gradient: Array) -> Operation | None:
        """Return an operation that computes the same and adds the gradient of the last input to its target, as `np.add` would.

        Each bit is the same. None where no operation does so faster.

        Args:
            inputs, gradient: arrays such as backward will be given.
        """
        return None

    def __call__(self, first: Applicable[Other, Result], *others: Other) -> Result:
        """Return the graph's node that applies this operation; raise TypeError for an array, or another object."""
        if not hasattr(first, "apply"):
            raise TypeError(f"{type(self).__name__} is called on a value of a graph, got {type(first).__name__}")
        return first.apply(self, *others)


def batch_leads(shape: Shape) -> bool:
    """Return whether the first axis of this shape, and no other, is the batch."""
    return shape[:1] == (BATCH,) and BATCH not in shape[1:]
