"""The codecs that ship as compositions and have no module of their own: `parallel_sgd.codec.TopK`, `--codec TopK`."""

from __future__ import annotations

from . import compose, pipeline
from .interfaces import Codec
from .recipes import Recipes
from .settings import GlobalSettings

shipped = Recipes(__name__)
get = GlobalSettings.get_params


def __getattr__(name: str) -> type[Codec]:
    return shipped.get(name)


# dense -----------------------------------------------------------------------------------------------------------------


@shipped.composes("Ring")
def _ring(name: str) -> type[Codec]:
    """Reduce-scatter and all-gather: 2 (W - 1) / W 4n bytes per worker and variable, and the bits of `Plain`."""
    return Codec.of(compose.Ring(), name=name)


@shipped.composes("ShardedPS")
def _sharded_ps(name: str) -> type[Codec]:
    """Dense: the mean over all blocks, 2 (W - 1) / W 4n bytes per worker and variable. `Ring` under another name."""
    return Codec.of(compose.ShardedPS(), name=name)


@shipped.composes("Tree")
def _tree(name: str) -> type[Codec]:
    """Sums climb a binary tree and the mean comes down: the bits of `Plain`, at most log2(W) 4n bytes each way per worker."""
    return Codec.of(compose.Tree(), name=name)


@shipped.composes("FirstCopy")
def _first_copy(name: str) -> type[Codec]:
    """The mean over all blocks, each from the worker that sends it first: with DuplicateAssignment or IIDBlockAssignment of
    redundancy r any r - 1 of those that share a block may be late or lost, and no bit changes. `Plain` does the same by itself.
    """
    return Codec.of(compose.AllToAll(), merge=compose.FirstCopy(), name=name)


@shipped.composes("FirstCopyInt8")
def _first_copy_int8(name: str) -> type[Codec]:
    """`FirstCopy` with numbers of 8 bits: every block is encoded by itself, alike by all workers that hold it."""
    return Codec.of(compose.AllToAll(), up=pipeline.Int8(4096), merge=compose.FirstCopy(), name=name)


@shipped.composes("Median")
def _median(name: str) -> type[Codec]:
    """The median over workers of each number. Yin et al., "Byzantine-robust distributed learning", 2018."""
    return Codec.of(compose.AllToAll(), merge=compose.Median(), name=name)


@shipped.composes("TrimmedMean")
def _trimmed_mean(name: str) -> type[Codec]:
    """The mean without the `trim` (1) largest and smallest values of each number, of more than 2 trim workers.

    Yin et al., "Byzantine-robust distributed learning", 2018.
    """
    return Codec.of(compose.AllToAll(), merge=lambda: compose.TrimmedMean(get("trim", 1)), name=name)


@shipped.composes("Krum")
def _krum(name: str) -> type[Codec]:
    """The gradient nearest to most others, for up to `faulty` (1) wrong ones of at least 2 faulty + 3 workers.

    Blanchard et al., "Machine learning with adversaries: Byzantine tolerant gradient descent", 2017.
    """
    return Codec.of(compose.AllToAll(), merge=lambda: compose.Krum(get("faulty", 1)), name=name)


@shipped.composes("Adasum")
def _adasum(name: str) -> type[Codec]:
    """The sum of gradients less the part that two of them have in common.

    Maleki et al., "Scaling distributed training with adaptive summation", 2021.
    """
    return Codec.of(compose.AllToAll(), merge=compose.Adasum(), name=name)


# fewer bits per number -------------------------------------------------------------------------------------------------


@shipped.composes("FP16")
def _fp16(name: str) -> type[Codec]:
    """Half precision on both ways, means are taken in float32: half the bytes of `Ring`. Limits numbers to +-65504."""
    return Codec.of(compose.ShardedPS(), up=pipeline.Cast("fp16"), down=pipeline.Cast("fp16"), name=name)


@shipped.composes("BF16")
def _bf16(name: str) -> type[Codec]:
    """bfloat16 on both ways: the range of float32, 8 bits of precision."""
    return Codec.of(compose.ShardedPS(), up=pipeline.Cast("bf16"), down=pipeline.Cast("bf16"), name=name)


@shipped.composes("Int8")
def _int8(name: str) -> type[Codec]:
    """8 bits per number and a scale per `block` (4096) of them, on both ways: a quarter of the bytes of `Ring`."""

    def int8() -> pipeline.Int8:
        return pipeline.Int8(get("block", 4096))

    return Codec.of(compose.ShardedPS(), up=int8, down=int8, name=name)


@shipped.composes("QSGD")
def _qsgd(name: str) -> type[Codec]:
    """Gradients of `bits` (8, 4 or 2) per number with one norm per `bucket` (512) of them, to all workers.

    Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding", 2017.
    """
    return Codec.of(compose.AllToAll(), up=lambda: pipeline.QSGD(get("bits", 8), get("bucket", 512)), name=name)


@shipped.composes("TernGrad")
def _terngrad(name: str) -> type[Codec]:
    """Two bits per number, after clipping at `clip` (2.5) standard deviations; None does not clip.

    Wen et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", 2017.
    """
    return Codec.of(compose.AllToAll(), up=lambda: pipeline.Tern(get("clip", 2.5)), name=name)


def _levels_up() -> pipeline.Levels:
    return pipeline.Levels(get("QC", 8))


def _levels_down() -> pipeline.Levels:
    return pipeline.Levels(get("QS", 8))


@shipped.composes("LevelQuantizer")
def _level_quantizer(name: str) -> type[Codec]:
    """`QC` bits (8) per number from workers to the parameter server, `QS` bits (8) back: 2, 4 or 8. Levels are dense near 0."""
    return Codec.of(compose.PS(), up=_levels_up, down=_levels_down, name=name)


@shipped.composes("ShardedLevels")
def _sharded_levels(name: str) -> type[Codec]:
    """`LevelQuantizer` without a server: every worker merges a part of each variable."""
    return Codec.of(compose.ShardedPS(), up=_levels_up, down=_levels_down, name=name)


@shipped.composes("Natural")
def _natural(name: str) -> type[Codec]:
    """Powers of two, 8 bits per number, unbiased.

    Horvath et al., "Natural compression for distributed deep learning", 2019.
    """
    return Codec.of(compose.AllToAll(), up=pipeline.Natural(), name=name)


def _error_fed_sign() -> pipeline.ErrorFeedback:
    return pipeline.ErrorFeedback(pipeline.Sign())


@shipped.composes("EFSign")
def _ef_sign(name: str) -> type[Codec]:
    """Signs and one scale, with error feedback. For op_type=LocalUpdateOptimizer, or rules without momentum.

    Karimireddy et al., "Error feedback fixes SignSGD and other gradient compression schemes", 2019.
    """
    return Codec.of(compose.AllToAll(), up=_error_fed_sign, name=name)


@shipped.composes("EFSignBothWays")
def _ef_sign_both_ways(name: str) -> type[Codec]:
    """`EFSign` on both ways, with error feedback where shards are merged too.

    Zheng et al., "Communication-efficient distributed blockwise momentum SGD with error-feedback", 2019.
    """
    return Codec.of(compose.ShardedPS(), up=_error_fed_sign, down=_error_fed_sign, name=name)


@shipped.composes("OneBit")
def _one_bit(name: str) -> type[Codec]:
    """One bit per number and the means of both sides, with error feedback.

    Seide et al., "1-bit stochastic gradient descent", 2014.
    """
    return Codec.of(compose.AllToAll(), up=pipeline.ErrorFeedback(pipeline.TwoMeans()), name=name)


@shipped.composes("OneBitAdam")
def _one_bit_adam(name: str) -> type[Codec]:
    """`warmup` (200) batches of Adam (`learn_rate` 1e-3, `beta1`, `beta2`, `epsilon`), dense; then its momentum, in signs with
    error feedback on both ways, over a second moment that stands still. For op_type=GradientAveragingOptimizer; the workers'
    own rule is not used.

    Tang et al., "1-bit Adam: communication efficient large-scale training with Adam's convergence speed", 2021.
    """

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


@shipped.composes("SignSGD")
def _sign_sgd(name: str) -> type[Codec]:
    """One bit per number; +1 or -1 as most workers say. For SGDOptimizer with a learning rate of 1e-4 to 1e-3.

    Bernstein et al., "signSGD with majority vote is communication efficient and fault tolerant", 2019.
    """
    return Codec.of(compose.AllToAll(), up=pipeline.Sign(scale=None), merge=compose.Vote(), name=name)


@shipped.composes("Signum")
def _signum(name: str) -> type[Codec]:
    """`SignSGD` with the signs of each worker's momentum (`momentum`, 0.9)."""

    def up() -> pipeline.Stage:
        return pipeline.Momentum(get("momentum", 0.9)) | pipeline.Sign(scale=None)

    return Codec.of(compose.AllToAll(), up=up, merge=compose.Vote(), name=name)


@shipped.composes("SignSGDPS")
def _sign_sgd_ps(name: str) -> type[Codec]:
    """The vote of `SignSGD` at the parameter server, one bit up and one bit down."""
    return Codec.of(compose.PS(), up=pipeline.Sign(scale=None), down=pipeline.Sign(scale=None), merge=compose.Vote(), name=name)


@shipped.composes("LAQ")
def _laq(name: str) -> type[Codec]:
    """The change of a worker's gradient, in `bits` (4) per number, only where it is large against the last results (`xi` 0.8,
    `depth` 10), at the latest after `most` (100) batches. The server keeps the sum of all changes that each worker has sent.

    Sun et al., "Communication-efficient distributed learning via lazily aggregated quantized gradients", 2019.
    """

    def lazy() -> compose.Lazy:
        return compose.Lazy(get("xi", 0.8), get("depth", 10), get("most", 100))

    return Codec.of(compose.PS(), up=lambda: pipeline.Grid(get("bits", 4)), trigger=lazy, name=name)


# fewer numbers ---------------------------------------------------------------------------------------------------------


def _top(rho: float) -> pipeline.TopK:
    return pipeline.TopK(get("rho", rho))


@shipped.composes("TopK")
def _top_k(name: str) -> type[Codec]:
    """The share `rho` (0.01) of largest magnitude with error feedback. For op_type=LocalUpdateOptimizer, or rules without
    momentum.

    Stich et al., "Sparsified SGD with memory", 2018.
    """
    return Codec.of(compose.AllToAll(), up=lambda: pipeline.ErrorFeedback(_top(0.01)), name=name)


@shipped.composes("TopKInt8")
def _top_k_int8(name: str) -> type[Codec]:
    """`TopK` with values of 8 bits."""
    return Codec.of(compose.AllToAll(), up=lambda: pipeline.ErrorFeedback(_top(0.01) | pipeline.Int8(4096)), name=name)


@shipped.composes("ShardedTopK")
def _sharded_top_k(name: str) -> type[Codec]:
    """The share `rho` (0.01) of the gradient up, 8 bits a number down, with error feedback on both ways."""

    def up() -> pipeline.Stage:
        return pipeline.ErrorFeedback(_top(0.01) | pipeline.Int8(4096))

    return Codec.of(compose.ShardedPS(), up=up, down=pipeline.ErrorFeedback(pipeline.Int8(4096)), name=name)


@shipped.composes("RandomK")
def _random_k(name: str) -> type[Codec]:
    """The share `rho` (0.1) of the gradient, scaled so that it is unbiased, at the bytes of a ring and without indices.

    Wangni et al., "Gradient sparsification for communication-efficient distributed optimization", 2018.
    """
    return Codec.of(compose.Ring(), up=lambda: pipeline.RandomK(get("rho", 0.1)), name=name)


@shipped.composes("DGC")
def _dgc(name: str) -> type[Codec]:
    """The share `rho` (0.001) of the velocities of largest magnitude; `momentum` (0.9) is here, so the rule is SGDOptimizer.
    The share falls to rho within `warmup` (200) batches. `clip_norm` limits each variable's gradient.

    Lin et al., "Deep gradient compression: reducing the communication bandwidth for distributed training", 2018.
    """

    def up() -> pipeline.Stage:
        norm, workers = get("clip_norm", None), GlobalSettings.get_default().node_count
        memory = pipeline.DGCMemory(get("momentum", 0.9), pipeline.TopK(get("rho", 0.001), get("warmup", 200)))
        return memory if norm is None else pipeline.Clip(norm, workers) | memory

    return Codec.of(compose.AllToAll(), up=up, name=name)


@shipped.composes("PowerSGD")
def _power_sgd(name: str) -> type[Codec]:
    """Factors of rank `rank` (2), averaged one after the other at the bytes of a ring; small variables go dense.

    Vogels, Karimireddy and Jaggi, "PowerSGD: practical low-rank gradient compression for distributed optimization", 2019.
    """
    return Codec.of(compose.Ring(), up=lambda: pipeline.PowerSGD(get("rank", 2)), name=name)


# parameters now and then, or from few others: op_type=ParameterAveragingOptimizer ----------------------------------------


@shipped.composes("SMA")
def _sma(name: str) -> type[Codec]:
    """w <- (1 - `alpha`) w + `alpha` (0.1) mean(w) after every local step, at the bytes of a ring: synchronous model averaging,
    the family of elastic averaging SGD. For op_type=ParameterAveragingOptimizer. Mai et al., "KungFu", 2020.
    """
    return Codec.of(compose.Ring(), send="weights", local=lambda: compose.Elastic(get("alpha", 0.1)), name=name)


@shipped.composes("DPSGD")
def _dpsgd(name: str) -> type[Codec]:
    """w <- (own + both neighbours) / 3 after every local step; 2 x 4n bytes. For op_type=ParameterAveragingOptimizer.

    Lian et al., "Can decentralized algorithms outperform centralized algorithms?", 2017.
    """
    return Codec.of(compose.Gossip("ring"), send="weights", name=name)


@shipped.composes("CHOCO")
def _choco(name: str) -> type[Codec]:
    """`DPSGD` with the share `rho` (0.05) of the changes in each worker's public copy.

    Koloskova et al., "Decentralized stochastic optimization and gossip algorithms with compressed communication", 2019.
    """
    up = lambda: pipeline.DiffRef(_top(0.05))  # noqa: E731
    return Codec.of(compose.Gossip("ring", gamma=0.3), up=up, send="weights", name=name)


@shipped.composes("RandomPair")
def _random_pair(name: str) -> type[Codec]:
    """w <- (own + partner) / 2 after every local step, with another partner each time; 4n bytes. For
    op_type=ParameterAveragingOptimizer.

    Lian et al., "Asynchronous decentralized parallel stochastic gradient descent", 2018.
    """
    return Codec.of(compose.RandomPair(), send="weights", name=name)
