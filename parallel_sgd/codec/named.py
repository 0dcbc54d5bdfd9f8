"""The codecs that ship as compositions and have no module of their own: `parallel_sgd.codec.TopK`, `--codec TopK`."""

from __future__ import annotations

from . import compose, pipeline
from .interfaces import Codec
from .recipes import NamedCodec, Recipes
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


# dense -----------------------------------------------------------------------------------------------------------------


@shipped.composes
class Ring(NamedCodec):
    """Reduce-scatter and all-gather: 2 (W - 1) / W 4n bytes per worker and variable, and the bits of `Plain`."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.Ring(), name=name)


@shipped.composes
class ShardedPS(NamedCodec):
    """Dense: the mean over all blocks, 2 (W - 1) / W 4n bytes per worker and variable. `Ring` under another name."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.ShardedPS(), name=name)


@shipped.composes
class Tree(NamedCodec):
    """Sums climb a binary tree and the mean comes down: the bits of `Plain`, at most log2(W) 4n bytes each way per worker."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.Tree(), name=name)


@shipped.composes
class FirstCopy(NamedCodec):
    """The mean over all blocks, each from the worker that sends it first: with DuplicateAssignment or IIDBlockAssignment of
    redundancy r any r - 1 of those that share a block may be late or lost, and no bit changes. `Plain` does the same by itself.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), merge=compose.FirstCopy(), name=name)


@shipped.composes
class FirstCopyInt8(NamedCodec):
    """`FirstCopy` with numbers of 8 bits: every block is encoded by itself, alike by all workers that hold it."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=pipeline.Int8(4096), merge=compose.FirstCopy(), name=name)


@shipped.composes
class Median(NamedCodec):
    """The median over workers of each number. Yin et al., "Byzantine-robust distributed learning", 2018."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), merge=compose.Median(), name=name)


@shipped.composes
class TrimmedMean(NamedCodec):
    """The mean without the `trim` (1) largest and smallest values of each number, of more than 2 trim workers.

    Yin et al., "Byzantine-robust distributed learning", 2018.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), merge=lambda: compose.TrimmedMean(get("trim", 1)), name=name)


@shipped.composes
class Krum(NamedCodec):
    """The gradient nearest to most others, for up to `faulty` (1) wrong ones of at least 2 faulty + 3 workers.

    Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", 2017.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), merge=lambda: compose.Krum(get("faulty", 1)), name=name)


@shipped.composes
class Adasum(NamedCodec):
    """The sum of gradients less the part that two of them have in common.

    Maleki et al., "Scaling distributed training with adaptive summation", 2021.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), merge=compose.Adasum(), name=name)


# fewer bits per number -------------------------------------------------------------------------------------------------


@shipped.composes
class FP16(NamedCodec):
    """Half precision on both ways, means are taken in float32: half the bytes of `Ring`. Limits numbers to +-65504."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.ShardedPS(), up=pipeline.Cast("fp16"), down=pipeline.Cast("fp16"), name=name)


@shipped.composes
class BF16(NamedCodec):
    """bfloat16 on both ways: the range of float32, 8 bits of precision."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.ShardedPS(), up=pipeline.Cast("bf16"), down=pipeline.Cast("bf16"), name=name)


@shipped.composes
class Int8(NamedCodec):
    """8 bits per number and a scale per `block` (4096) of them, on both ways: a quarter of the bytes of `Ring`."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def int8() -> pipeline.Int8:
            return pipeline.Int8(get("block", 4096))

        return Codec.of(compose.ShardedPS(), up=int8, down=int8, name=name)


@shipped.composes
class QSGD(NamedCodec):
    """Gradients of `bits` (8, 4 or 2) per number with one norm per `bucket` (512) of them, to all workers.

    Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=lambda: pipeline.QSGD(get("bits", 8), get("bucket", 512)), name=name)


@shipped.composes
class TernGrad(NamedCodec):
    """Two bits per number, after clipping at `clip` (2.5) standard deviations; None does not clip.

    Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=lambda: pipeline.Tern(get("clip", 2.5)), name=name)


def _levels_up() -> pipeline.Levels:
    return pipeline.Levels(get("QC", 8))


def _levels_down() -> pipeline.Levels:
    return pipeline.Levels(get("QS", 8))


@shipped.composes
class LevelQuantizer(NamedCodec):
    """`QC` bits (8) per number from workers to the parameter server, `QS` bits (8) back: 2, 4 or 8. Levels are dense near 0."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.PS(), up=_levels_up, down=_levels_down, name=name)


@shipped.composes
class ShardedLevels(NamedCodec):
    """`LevelQuantizer` without a server: every worker merges a part of each variable."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.ShardedPS(), up=_levels_up, down=_levels_down, name=name)


@shipped.composes
class Natural(NamedCodec):
    """Powers of two, 8 bits per number, unbiased.

    Horvath et al., "Natural compression for distributed deep learning", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=pipeline.Natural(), name=name)


def _error_fed_sign() -> pipeline.ErrorFeedback:
    return pipeline.ErrorFeedback(pipeline.Sign())


@shipped.composes
class EFSign(NamedCodec):
    """Signs and one scale, with error feedback. For op_type=LocalUpdateOptimizer, or rules without momentum.

    Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=_error_fed_sign, name=name)


@shipped.composes
class EFSignBothWays(NamedCodec):
    """`EFSign` on both ways, with error feedback where shards are merged too.

    Zheng et al., "Communication-efficient distributed blockwise momentum SGD with error-feedback", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.ShardedPS(), up=_error_fed_sign, down=_error_fed_sign, name=name)


@shipped.composes
class OneBit(NamedCodec):
    """One bit per number and the means of both sides, with error feedback.

    Seide et al., "1-bit stochastic gradient descent", 2014.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=pipeline.ErrorFeedback(pipeline.TwoMeans()), name=name)


@shipped.composes
class OneBitAdam(NamedCodec):
    """`warmup` (200) batches of Adam (`learn_rate` 1e-3, `beta1`, `beta2`, `epsilon`), dense; then its momentum, in signs with
    error feedback on both ways, over a second moment that stands still. For op_type=GradientAveragingOptimizer; the workers'
    own rule is not used.

    Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed", 2021.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def adam() -> compose.FrozenAdam:
            return compose.FrozenAdam(get("learn_rate", 1e-3), get("beta1", 0.9), get("beta2", 0.999), get("epsilon", 1e-8))

        return Codec.of(
            compose.ShardedPS(),
            up=_error_fed_sign,
            down=_error_fed_sign,
            trigger=lambda: compose.Warmup(get("warmup", 200)),
            local=adam,
            name=name,
        )


@shipped.composes
class SignSGD(NamedCodec):
    """One bit per number; +1 or -1 as most workers say. For SGDOptimizer with a learning rate of 1e-4 to 1e-3.

    Bernstein et al., "signSGD with majority vote is communication efficient and fault tolerant", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=pipeline.Sign(scale=None), merge=compose.Vote(), name=name)


@shipped.composes
class Signum(NamedCodec):
    """`SignSGD` with the signs of each worker's momentum (`momentum`, 0.9)."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def up() -> pipeline.Stage:
            return pipeline.Momentum(get("momentum", 0.9)) | pipeline.Sign(scale=None)

        return Codec.of(compose.AllToAll(), up=up, merge=compose.Vote(), name=name)


@shipped.composes
class SignSGDPS(NamedCodec):
    """The vote of `SignSGD` at the parameter server, one bit up and one bit down."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(
            compose.PS(), up=pipeline.Sign(scale=None), down=pipeline.Sign(scale=None), merge=compose.Vote(), name=name
        )


@shipped.composes
class LAQ(NamedCodec):
    """The change of a worker's gradient, in `bits` (4) per number, only where it is large against the last results (`xi` 0.8,
    `depth` 10), at the latest after `most` (100) batches. The server keeps the sum of all changes that each worker has sent.

    Sun et al., "Communication-efficient distributed learning via lazily aggregated quantized gradients", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def lazy() -> compose.Lazy:
            return compose.Lazy(get("xi", 0.8), get("depth", 10), get("most", 100))

        return Codec.of(compose.PS(), up=lambda: pipeline.Grid(get("bits", 4)), trigger=lazy, name=name)


# fewer numbers ---------------------------------------------------------------------------------------------------------


def _top(rho: float) -> pipeline.TopK:
    return pipeline.TopK(get("rho", rho))


@shipped.composes
class TopK(NamedCodec):
    """The share `rho` (0.01) of largest magnitude with error feedback. For op_type=LocalUpdateOptimizer, or rules without
    momentum.

    Stich et al., "Sparsified SGD with memory", 2018.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=lambda: pipeline.ErrorFeedback(_top(0.01)), name=name)


@shipped.composes
class TopKInt8(NamedCodec):
    """`TopK` with values of 8 bits."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.AllToAll(), up=lambda: pipeline.ErrorFeedback(_top(0.01) | pipeline.Int8(4096)), name=name)


@shipped.composes
class ShardedTopK(NamedCodec):
    """The share `rho` (0.01) of the gradient up, 8 bits a number down, with error feedback on both ways."""

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def up() -> pipeline.Stage:
            return pipeline.ErrorFeedback(_top(0.01) | pipeline.Int8(4096))

        return Codec.of(compose.ShardedPS(), up=up, down=pipeline.ErrorFeedback(pipeline.Int8(4096)), name=name)


@shipped.composes
class RandomK(NamedCodec):
    """The share `rho` (0.1) of the gradient, scaled so that it is unbiased, at the bytes of a ring and without indices.

    Wangni et al., "Gradient sparsification for communication-efficient distributed optimization", 2018.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.Ring(), up=lambda: pipeline.RandomK(get("rho", 0.1)), name=name)


@shipped.composes
class DGC(NamedCodec):
    """The share `rho` (0.001) of the velocities of largest magnitude; `momentum` (0.9) is here, so the rule is SGDOptimizer.
    The share falls to rho within `warmup` (200) batches. `clip_norm` limits each variable's gradient.

    Lin et al., "Deep gradient compression: reducing the communication bandwidth for distributed training", 2018.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        def up() -> pipeline.Stage:
            norm, workers = get("clip_norm", None), GlobalSettings.get_default().node_count
            memory = pipeline.DGCMemory(get("momentum", 0.9), pipeline.TopK(get("rho", 0.001), get("warmup", 200)))
            return memory if norm is None else pipeline.Clip(norm, workers) | memory

        return Codec.of(compose.AllToAll(), up=up, name=name)


@shipped.composes
class PowerSGD(NamedCodec):
    """Factors of rank `rank` (2), averaged one after the other at the bytes of a ring; small variables go dense.

    Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.Ring(), up=lambda: pipeline.PowerSGD(get("rank", 2)), name=name)


# parameters now and then, or from few others: op_type=ParameterAveragingOptimizer ----------------------------------------


@shipped.composes
class SMA(NamedCodec):
    """w <- (1 - `alpha`) w + `alpha` (0.1) mean(w) after every local step, at the bytes of a ring: synchronous model averaging,
    the family of elastic averaging SGD. For op_type=ParameterAveragingOptimizer. Mai et al., "KungFu", 2020.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.Ring(), send="weights", local=lambda: compose.Elastic(get("alpha", 0.1)), name=name)


@shipped.composes
class DPSGD(NamedCodec):
    """w <- (own + both neighbours) / 3 after every local step; 2 x 4n bytes. For op_type=ParameterAveragingOptimizer.

    Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.Gossip("ring"), send="weights", name=name)


@shipped.composes
class CHOCO(NamedCodec):
    """`DPSGD` with the share `rho` (0.05) of the changes in each worker's public copy.

    Koloskova et al., "Decentralized stochastic optimization and gossip algorithms with compressed communication", 2019.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        up = lambda: pipeline.DiffRef(_top(0.05))  # noqa: E731
        return Codec.of(compose.Gossip("ring", gamma=0.3), up=up, send="weights", name=name)


@shipped.composes
class RandomPair(NamedCodec):
    """w <- (own + partner) / 2 after every local step, with another partner each time; 4n bytes. For
    op_type=ParameterAveragingOptimizer.

    Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", 2018.
    """

    @staticmethod
    def _made(name: str) -> type[Codec]:
        return Codec.of(compose.RandomPair(), send="weights", name=name)


__getattr__ = shipped.on_demand(globals())
