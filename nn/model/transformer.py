"""A small transformer for sequences."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nn import arguments
from nn.activation.gelu import GELU
from nn.arrays import Array, DType, Shape, as_array
from nn.initializer import Initializer, Uniform
from nn.layer.attention import MultiHeadAttention
from nn.layer.core import Dense, Embedding
from nn.layer.merging import Add
from nn.layer.normalization import LayerNorm
from nn.layer.regularization import Dropout
from nn.model.decoder import CachedDecoder, Picker, continued
from nn.model.model import Model
from nn.random import keyed
from nn.value.value import Value, Variable

ROTARY_BASE = 10_000.0
"""Base of rotary positions, as its authors chose it."""


class Transformer(Model, configured=True):
    """A decoder that scores, at every position of a sequence, the next id; it sees that position and those before it.

    Embedding of ids plus one of positions, which starts as sine waves; `blocks` times x + attention(LN(x)), then
    x + feed-forward(LN(x)), which is Dense(hidden, GELU) and Dense(features); LN; scores. (Vaswani et al., "Attention Is All
    You Need", 2017; causal, with normalisation in front of each branch, as Radford et al., "Language Models are Unsupervised
    Multitask Learners", 2019.) With `rotary` no embedding of positions is added: queries and keys are turned by their positions
    (`MultiHeadAttention`). With `tied` the scores are products with the embeddings of the ids, which serve as input times
    sqrt(features) (Press and Wolf, "Using the Output Embedding to Improve Language Models", 2017).

    Shapes: x (batch, length), ids from 0 to vocabulary - 1; output (batch, length, vocabulary), scores. Train it with
    `Cross_Entropy_With_Softmax` and the ids that follow as labels, (batch, length). `generate` continues sequences.

    Args:
        vocabulary: number of ids.
        length: positions of a sequence.
        features: numbers at each position, a multiple of `heads`.
        heads: heads of each attention.
        blocks: number of blocks.
        hidden: features between the two products of a feed-forward branch, 4 * features by default.
        dropout: share of the sum of the embeddings and of each branch that is set to 0 in training.
        input_shape: (-1, length), which is the default.
        rotary: whether positions are told by turns of queries and keys; features / heads must be even.
        tied: whether the last product shares its kernel with the embedding; it has no bias then.
        seed: seed of all draws.
        dtype: "float32" or "float64".

    Raises ValueError for inputs of another length.

    >>> model = nn.model.Transformer(vocabulary=96, length=64)
    >>> model.call(nn.Placeholder([-1, 64])).shape
    (-1, 64, 96)
    """

    positions: Variable

    def __init__(
        self,
        vocabulary: int,
        length: int,
        features: int = 64,
        heads: int = 4,
        blocks: int = 2,
        hidden: int | None = None,
        dropout: float = 0.0,
        input_shape: Sequence[int | None] | None = None,
        *,
        rotary: bool = False,
        tied: bool = False,
        seed: int = 0,
        dtype: DType = "float32",
    ) -> None:
        # Before the base class, which needs the length for the shape of the input.
        self.vocabulary = arguments.integer(self, "vocabulary", vocabulary, minimum=1)
        self.length = arguments.integer(self, "length", length, minimum=1)
        super().__init__((-1, self.length) if input_shape is None else input_shape, seed=seed, dtype=dtype)
        self.features = arguments.integer(self, "features", features, minimum=1)
        self.heads = arguments.integer(self, "heads", heads, minimum=1)
        if self.features % self.heads:
            raise ValueError(f"Transformer 'features' must be a multiple of the {self.heads} heads, got {self.features}")
        self.blocks = arguments.integer(self, "blocks", blocks, minimum=1)
        self.hidden = 4 * self.features if hidden is None else arguments.integer(self, "hidden", hidden, minimum=1)
        self.dropout = arguments.number(self, "dropout", dropout, 0, 1)
        self.rotary = arguments.flag(self, "rotary", rotary)
        self.tied = arguments.flag(self, "tied", tied)
        if self.rotary and self.features // self.heads % 2:
            raise ValueError(
                f"Transformer 'features' must be an even multiple of the {self.heads} heads with 'rotary', got {self.features}"
            )

    def call(self, x: Value) -> Value:
        if x.shape[1:] != (self.length,):
            raise ValueError(f"Transformer takes ids of shape (batch, {self.length}), got {x.shape}")
        # Tied, larger ones would begin with the certainty that each id follows itself, and smaller ones learn more slowly.
        most = 0.1 if self.tied else 1.0
        embedding = Embedding(self.vocabulary, self.features, Uniform(-most, most))
        embedded: Value = embedding(x)
        if self.tied:
            embedded = embedded * math.sqrt(self.features)
        if not self.rotary:
            self._keep(positions=Variable((self.length, self.features), _Waves()))  # `call` may be asked by itself
            embedded = Add()([embedded, self.positions])
        x = self._thin_out(embedded)
        base = ROTARY_BASE if self.rotary else None
        for _ in range(self.blocks):
            attend = MultiHeadAttention(self.heads, self.features // self.heads, causal=True, rotary_base=base)
            x = Add()([x, self._thin_out(attend(LayerNorm(1e-5)(x)))])
            fed = Dense(self.features)(Dense(self.hidden, activation=GELU())(LayerNorm(1e-5)(x)))
            x = Add()([x, self._thin_out(fed)])
        x = LayerNorm(1e-5)(x)
        return x @ embedding.embeddings.T if self.tied else Dense(self.vocabulary)(x)

    def generate(
        self,
        ids: Any,
        count: int,
        *,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        seed: int | None = None,
    ) -> Array:
        """Return beginnings of sequences, continued by ids that are drawn one after the other by their scores.

        Keys and values of earlier positions are kept (`CachedDecoder`), so an id costs one position. A sequence that reaches
        `length` goes on from its last half. Equal seeds and weights give equal ids.

        Args:
            ids: the beginning ``(n,)`` of one sequence, or those of several ``(batch, n)``, at least one id each.
            count: how many ids to add.
            temperature: below 1 the draws dare less, above 1 more; 0: the id of the best score, without a draw.
            top_k: draw from so many best ids; None: from all.
            top_p: draw from the best ids that have this share of the probability together; 1: from all.
            seed: seed of the draws; None: that of the model.

        Returns:
            The ids ``(n + count,)`` or ``(batch, n + count)``, int32.

        Raises:
            TypeError or ValueError: for arguments that are not as said, and before `setup`.
        """
        given = as_array("generate() 'ids'", ids)
        if given.ndim not in (1, 2) or not given.size or given.dtype.kind not in "iu":
            raise ValueError(
                f"generate() 'ids' must be whole numbers (n,) or (batch, n), at least one, got {given.dtype} {given.shape}"
            )
        arguments.integer("generate()", "count", count, minimum=0)
        seed = self.seed if seed is None else arguments.integer("generate()", "seed", seed, minimum=0)
        pick = Picker(temperature, top_k, top_p, keyed(seed, "generate"))
        rows = given.reshape(-1, given.shape[-1])
        found = continued(CachedDecoder(self, len(rows)), rows, count, pick)
        made = np.concatenate([rows, *(each[:, None] for each in found)], axis=1).astype(np.int32)
        return made.reshape(*given.shape[:-1], made.shape[1])

    def _thin_out(self, x: Value) -> Value:
        return Dropout(self.dropout)(x) if self.dropout else x


class _Waves(Initializer):
    """Sine and cosine waves along the positions, with wavelengths from 4 positions to 4 times the length.

    From such a start attention finds a neighbour by one turn for all positions, where vectors drawn at random would have to be
    learned one by one.
    """

    amplitude = 0.5

    def __call__(self, shape: Shape, generator: np.random.Generator) -> Array:
        length, features = shape
        waves = np.arange((features + 1) // 2)
        # From pi / 2 for each position, a wavelength of 4, to pi / 2 over the length.
        angles = np.arange(length)[:, None] * (np.pi / 2 / length ** (waves / len(waves)))
        return self.amplitude * np.concatenate([np.sin(angles), np.cos(angles)], axis=1)[:, :features]
