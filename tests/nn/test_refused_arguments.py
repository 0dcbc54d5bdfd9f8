"""What constructors, layers and expressions refuse: the message names who refuses, what is expected and what came."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import nn
from nn import function, layer
from nn import gradient_descent as gd
from nn.activation import ELU, GELU, LeakReLU, ReLU, Tanh
from nn.gradient_descent import (
    AdafactorOptimizer,
    ADAMOptimizer,
    Constant,
    Cosine,
    ExponentialDecay,
    SGDOptimizer,
    StepDecay,
    WarmUp,
)
from nn.initializer import Orthogonal, Uniform, Zeros
from nn.layer import (
    GRU,
    LSTM,
    Add,
    AveragePool,
    BatchNorm,
    Concatenate,
    Conv1D,
    Conv2D,
    Dense,
    Dropout,
    Embedding,
    GlobalAveragePool,
    LayerNorm,
    MaxPool,
    MultiHeadAttention,
    Reshape,
    SimpleRNN,
)
from nn.loss import Cross_Entropy_With_Softmax, HuberLoss
from nn.operation import Attention, Compare, Max, Mean, Min, Sum
from nn.operation.recurrent import GRUOperation, LSTMOperation
from nn.value import Placeholder, Value, Variable, as_value

Made = Callable[[], object]


def x(*sample: int) -> Placeholder:
    return Placeholder([-1, *sample])


def again(layer: nn.layer.Layer, first: Value, second: Value) -> object:
    """Apply a layer twice: the first input decides about its variables."""
    layer(first)
    return layer(second)


ARGUMENTS: list[tuple[str, Made]] = [
    ("LeakReLU 'alpha' must be a number >= 0 and < 1, got 1", lambda: LeakReLU(1)),
    ("ELU 'alpha' must be a number >= 0, got -0.1", lambda: ELU(-0.1)),
    ("Constant 'rate' must be a number >= 0, got -1", lambda: Constant(-1)),
    ("Constant 'value' must be a number that is finite, got nan", lambda: nn.initializer.Constant(float("nan"))),
    ("AdafactorOptimizer 'beta2_decay' must be a number < 0, got 0", lambda: AdafactorOptimizer(beta2_decay=0)),
    (r"Uniform 'high' must be a number >= 1, got 0", lambda: Uniform(1, 0)),
    ("Cosine 'steps' must be a positive integer, got 0", lambda: Cosine(0.1, 0)),
    ("Cosine 'final' must be a number >= 0, got -1", lambda: Cosine(0.1, 1, final=-1)),
    ("StepDecay 'factor' must be a number from 0 to 1, got 2", lambda: StepDecay(0.1, 5, factor=2)),
    ("ExponentialDecay 'factor' must be a number from 0 to 1, got 2", lambda: ExponentialDecay(0.1, 5, 2)),
    ("WarmUp 'start' must be a number >= 0, got -1", lambda: WarmUp(1, 5, start=-1)),
    ("SGDOptimizer 'learn_rate' must be a number >= 0, got -1", lambda: SGDOptimizer(-1)),
    ("ADAMOptimizer 'learn_rate' must be a number >= 0, got nan", lambda: ADAMOptimizer(float("nan"))),
    ("'beta1' must be a number >= 0 and < 1, got 1", lambda: ADAMOptimizer(beta1=1)),
    ("'epsilon' must be a number > 0, got 0", lambda: ADAMOptimizer(epsilon=0)),
    ("MomentumOptimizer 'momentum' must be a number >= 0 and < 1, got 1", lambda: gd.MomentumOptimizer(momentum=1)),
    (r"NesterovOptimizer 'momentum' must be .*, got -0\.1", lambda: gd.NesterovOptimizer(momentum=-0.1)),
    ("AdaGradOptimizer 'epsilon' must be a number > 0, got 0", lambda: gd.AdaGradOptimizer(epsilon=0)),
    ("AdaDeltaOptimizer 'rho' must be a number >= 0 and < 1, got 1", lambda: gd.AdaDeltaOptimizer(rho=1)),
    ("RMSPropOptimizer 'rho' must be a number >= 0 and < 1, got 1.5", lambda: gd.RMSPropOptimizer(rho=1.5)),
    ("GradientDecay 'decay' must be a number >= 0, got -1", lambda: gd.GradientDecay(decay=-1)),
    ("SGDOptimizer 'weight_decay' must be a number >= 0, got -1", lambda: SGDOptimizer(weight_decay=-1)),
    ("SGDOptimizer 'clip_value' must be a number > 0, got 0", lambda: SGDOptimizer(clip_value=0)),
    ("SGDOptimizer 'clip_norm' must be a number > 0, got -1", lambda: SGDOptimizer(clip_norm=-1)),
    ("SGDOptimizer takes 'clip_value' or 'clip_norm', got both", lambda: SGDOptimizer(clip_norm=1, clip_value=1)),
    ("Dense 'units' must be a positive integer, got 0", lambda: Dense(0)),
    ("Dense 'name' must be a non-empty text without '/', got 'a/b'", lambda: Dense(2, name="a/b")),
    ("Dense 'name' must not begin with 'rule:' or 'history:' or 'callback:', .* got 'rule:a'", lambda: Dense(2, name="rule:a")),
    (r"Dense 'name' must be a text that UTF-8 has, got '\\ud800'", lambda: Dense(2, name="\ud800")),
    ("Input 'name' must not begin with 'rule:'", lambda: nn.Input([-1, 2], name="history:a")),
    ("Dropout 'rate' must be a number >= 0 and < 1, got 1", lambda: Dropout(1)),
    (r"Dropout 'rate' must be a number >= 0 and < 1, got -0\.1", lambda: Dropout(-0.1)),
    (r"Reshape 'shape' must be .* got \[2, 0\]", lambda: Reshape([2, 0])),
    ("with at most one -1", lambda: Reshape([-1, -1])),
    ("Conv2D 'kernel' must be a positive integer, got 0", lambda: Conv2D(0)),
    (r"Conv2D 'kernel_size' must be one positive integer or 2 of them, got \[3\]", lambda: Conv2D(2, [3])),
    (r"Conv2D 'kernel_size' must be a list of positive integers, got \[3, 0\]", lambda: Conv2D(2, [3, 0])),
    ("Conv2D 'stride' must be a positive integer, got 0", lambda: Conv2D(2, stride=0)),
    ("must be 'valid', 'same' or an integer of at least 0, got 'full'", lambda: Conv2D(2, padding="full")),
    ("Conv2D 'padding' must be 'valid', 'same' or .*, got 'causal'", lambda: Conv2D(2, padding="causal")),
    ("Conv1D 'padding' must be 'valid', 'same', 'causal' or .*, got 'full'", lambda: layer.Conv1D(2, padding="full")),
    ("Conv2D 'dilation' must be a positive integer, got 0", lambda: Conv2D(2, dilation_rate=0)),
    ("Conv2DTranspose 'output_padding' must be less than the stride", lambda: layer.Conv2DTranspose(2, 3, 2, 1, 2)),
    ("'output_padding' stands with a number of cells as 'padding'", lambda: layer.Conv2DTranspose(2, 3, 2, "same", 1)),
    (r"Permute 'dims' must name the axes 1 to 2 once each, got \(1, 1\)", lambda: layer.Permute((1, 1))),
    ("RepeatVector 'n' must be a positive integer, got 0", lambda: layer.RepeatVector(0)),
    ("ZeroPadding 'padding' must be a number, a pair, or a pair of pairs", lambda: layer.ZeroPadding((1, 2, 3))),
    ("Cropping 'cropping' must be an integer of at least 0, got -1", lambda: layer.Cropping(-1)),
    ("UpSampling 'interpolation' must be one of nearest, bilinear, got 'cubic'", lambda: layer.UpSampling(2, "cubic")),
    ("GroupNorm 'groups' must be a positive integer, got 0", lambda: layer.GroupNorm(0)),
    ("SpatialDropout 'rate' must be a number >= 0 and < 1, got 1", lambda: layer.SpatialDropout(1)),
    ("GaussianNoise 'stddev' must be a number >= 0, got -1", lambda: layer.GaussianNoise(-1)),
    ("Bidirectional 'merge_mode' must be one of concat, sum, mul, ave", lambda: layer.Bidirectional(LSTM(2), "max")),
    ("'backward_layer' must return sequences if, and only if, 'layer' does",
     lambda: layer.Bidirectional(LSTM(2), backward_layer=LSTM(2, return_sequences=True))),
    ("VarianceScaling 'mode' must be one of fan_in, fan_out, fan_avg", lambda: nn.initializer.VarianceScaling(1, "fan")),
    ("Conv2D 'padding' must be 'valid', 'same' or an integer .* got -1", lambda: Conv2D(2, padding=-1)),
    ("Conv2D 'groups' must divide the 4 filters, got 3", lambda: Conv2D(4, groups=3)),
    ("Conv1D 'kernel_size' must be one positive integer or 1 of them", lambda: Conv1D(2, [3, 3])),
    ("MaxPool 'size' must be a positive integer, got 0", lambda: MaxPool(0)),
    ("MaxPool 'stride' must be one positive integer or 2 of them", lambda: MaxPool(2, [1, 2, 3])),
    ("LSTM 'units' must be a positive integer, got 0", lambda: LSTM(0)),
    ("LSTM 'name' must be a non-empty text without '/'", lambda: LSTM(2, name="a/b")),
    ("Embedding 'input_dim' must be a positive integer, got 0", lambda: Embedding(0, 3)),
    ("HuberLoss 'delta' must be a number > 0, got 0", lambda: HuberLoss(0)),
    ("'label_smoothing' must be a number >= 0 and < 1, got 1.0", lambda: Cross_Entropy_With_Softmax(1.0)),
    ("MultiHeadAttention 'num_heads' must be a positive integer, got 0", lambda: MultiHeadAttention(0, 3)),
    ("MultiHeadAttention 'key_dim' must be a positive integer, got 0", lambda: MultiHeadAttention(2, 0)),
    ("MultiHeadAttention 'value_dim' must be a positive integer, got -1", lambda: MultiHeadAttention(2, 3, -1)),
    ("MultiHeadAttention 'key_dim' must be even with a 'rotary_base', got 3", lambda: MultiHeadAttention(2, 3, rotary_base=9)),
    ("MultiHeadAttention 'rotary_base' must be a number >= 1", lambda: MultiHeadAttention(2, 4, rotary_base=0.5)),
    ("MultiHeadAttention 'output_dim' must be a positive integer, got 0", lambda: MultiHeadAttention(2, 3, output_dim=0)),
    ("BatchNorm 'momentum' must be a number >= 0 and < 1, got 1", lambda: BatchNorm(momentum=1)),
    (r"BatchNorm 'momentum' must be a number >= 0 and < 1, got -0\.1", lambda: BatchNorm(momentum=-0.1)),
    ("BatchNorm 'epsilon' must be a number > 0, got 0", lambda: BatchNorm(epsilon=0)),
    ("LayerNorm 'epsilon' must be a number > 0, got -1", lambda: LayerNorm(-1)),
    (r"Orthogonal needs a shape of at least two axes, got \(3,\)", lambda: Orthogonal()((3,), nn.random.keyed(0, "test"))),
    ("Model 'input_shape' must begin with -1", lambda: Placeholder([784])),
    ("Model 'input_shape' must begin with -1", lambda: Placeholder([64, 784])),
    ("Model 'input_shape' must begin with -1", lambda: Placeholder([])),
    ("Compare 'relation' must be one of >, >=, <, <=, ==, !=, got '=>'", lambda: Compare("=>")),
]  # fmt: skip

INPUTS: list[tuple[str, Made]] = [
    (r"Dense 'head': expected inputs with 4 features, got shape \(-1, 5\)", lambda: again(Dense(3, name="head"), x(4), x(5))),
    (r"Dense: expected inputs of shape \(batch, ..., features\), got \(-1,\)", lambda: Dense(3)(x())),
    ("Dense: expected one value, got 2", lambda: Dense(3)([x(4), x(4)])),
    ("Dense: expected one value, got 0", lambda: Dense(3)([])),
    (r"Reshape: samples of shape \(4,\) do not fit into shape \(3,\)", lambda: Reshape([3])(x(4))),
    (r"Conv2D: expected inputs of shape \(batch, height, width, channels\), got \(-1, 9, 9\)", lambda: Conv2D(2)(x(9, 9))),
    ("Conv2D: 'groups' must divide the 3 channels of the inputs, got 2", lambda: Conv2D(4, groups=2)(x(9, 9, 3))),
    (r"Conv2D: axis 1 \(height\) must have at least 5 cells for a window of \(5, 5\), got 4 from inputs of \(4, 9\) with "
     "padding 'valid'", lambda: Conv2D(2, 5)(x(4, 9, 1))),
    (r"Conv2D: axis 3 of the inputs must have 3 channels, got 4 in shape \(-1, 9, 9, 4\)",
     lambda: again(Conv2D(2), x(9, 9, 3), x(9, 9, 4))),
    (r"Conv1D: expected inputs of shape \(batch, time, channels\), got", lambda: Conv1D(2)(x(9, 9, 3))),
    (r"^Conv1D 'c': axis 1 \(time\) must have at least 9 cells", lambda: Conv1D(2, 9, name="c")(x(6, 2))),
    (r"^MaxPool: axis 1 \(height\) must have at least 3 cells for a window of \(3, 3\), got 2", lambda: MaxPool(3)(x(2, 9, 1))),
    (r"^MaxPool: 'padding' must be smaller than the window \(2, 2\), got 2", lambda: MaxPool(2, padding=2)(x(9, 9, 1))),
    ("MaxPool 'size' must be one positive integer or 1 of them", lambda: MaxPool([2, 2])(x(9, 1))),
    (r"AveragePool: expected inputs of shape \(batch, height, width, channels\) or", lambda: AveragePool()(x(9))),
    (r"GlobalAveragePool: expected inputs of shape \(batch, height, width, channels\) or", lambda: GlobalAveragePool()(x(9))),
    (r"MultiHeadAttention 'heads': expected query of shape \(batch, positions, features\), got \(-1, 4\)",
     lambda: MultiHeadAttention(2, 3, name="heads")(x(4))),
    ("expected value of shape", lambda: MultiHeadAttention(2, 3)([x(3, 4), x(4)])),
    (r"expected x, \[query, value\] or \[query, value, key\], got 4 values", lambda: MultiHeadAttention(2, 3)([x(3, 4)] * 4)),
    (r"value and key must have equally many positions on axis 1, got \(-1, 5, 4\) and \(-1, 6, 4\)",
     lambda: MultiHeadAttention(2, 3)([x(3, 4), x(5, 4), x(6, 4)])),
    (r"MultiHeadAttention: expected query of shape \(batch, positions, 5\), got \(-1, 4, 6\)",
     lambda: again(MultiHeadAttention(2, 3), x(4, 5), x(4, 6))),
    (r"Attention: axis 3 of the key must have the length 3 as in the query of shape \(-1, 4, 2, 3\), got 2 in shape "
     r"\(-1, 4, 2, 2\)", lambda: Attention()(x(4, 2, 3), x(4, 2, 2), x(4, 2, 3))),
    ("Attention: axis 1 of the value must have the length 4 as in the key",
     lambda: Attention()(x(4, 2, 3), x(4, 2, 3), x(2, 2, 3))),
    (r"Attention: value must have the axes .*, got shape \(-1, 2, 3\)",
     lambda: Attention()(x(4, 2, 3), x(4, 2, 3), x(2, 3))),
    (r"Add 'sum': shapes \(-1, 3\) and \(-1, 4\) do not fit together", lambda: Add(name="sum")([x(3), x(4)])),
    ("Add: expected values, got 0", lambda: Add()([])),
    (r"Concatenate 'join': .*axis 0 of shape \(-1, 3\) is the batch, which cannot grow",
     lambda: Concatenate(0, name="join")([x(3), x(3)])),
    (r"Concatenate: shapes \(-1, 3\) and \(-1, 3, 1\) differ on other axes than 1", lambda: Concatenate()([x(3), x(3, 1)])),
    (r"LSTMOperation: the kernel must have shape \(3, 8\), got \(3, 9\)",
     lambda: LSTMOperation().infer((-1, 5, 3), (3, 9), (2, 8))),
    (r"GRUOperation: the bias must have shape \(2, 6\), got \(6,\)",
     lambda: GRUOperation().infer((-1, 5, 3), (3, 6), (2, 6), (6,))),
    *((rf"{kind.__name__}: expected inputs of shape \(batch, \.\.\., features\), got \(-1,\)", lambda kind=kind: kind()(x()))
      for kind in (BatchNorm, LayerNorm)),
    *((rf"{kind.__name__} 'norm': expected inputs with 4 features on the last axis, got shape \(-1, 5\)",
       lambda kind=kind: again(kind(name="norm"), x(4), x(5))) for kind in (BatchNorm, LayerNorm)),
    *((rf"{kind.__name__}: expected inputs of shape \(batch, time, features\), got",
       lambda kind=kind, sample=sample: kind(3)(x(*sample))) for kind in (SimpleRNN, LSTM, GRU) for sample in ([4], [3, 4, 4])),
    *((rf"{kind.__name__} 'reader': expected inputs {wanted}",
       lambda kind=kind, sample=sample: again(kind(3, name="reader"), x(7, 4), x(*sample))) for kind in (SimpleRNN, LSTM, GRU)
      for sample, wanted in (
          ([7, 5], r"with 4 features on axis 2, got shape \(-1, 7, 5\)"), ([4], r"of shape .*, got \(-1, 4\)"))),
]  # fmt: skip

EXPRESSIONS: list[tuple[str, Made]] = [
    (r"Add: shapes \(-1, 3\) and \(4,\) do not fit together", lambda: x(3) + np.ones(4)),
    (r"Multiply: shapes \(-1, 3\) and \(5, 3\) do not fit together", lambda: x(3) * np.ones((5, 3))),
    ("MatMul: axis 0 of the second operand must have the length 3 of the last axis of the first, whose shape is "
     r"\(-1, 3\), got 4 in shape \(4, 2\)", lambda: x(3) @ np.ones((4, 2))),
    ("MatMul: axis 0 of the second operand must have the length 3", lambda: x(3) @ np.ones(4)),
    ("MatMul: operands must have at least two axes", lambda: x(3) @ 2),
    (r"Reshape: samples of 3 elements, shape \(-1, 3\), do not fit into rows of 7 elements", lambda: x(3).reshape(-1, 7)),
    ("Reshape: samples of 3 elements", lambda: x(3).reshape(-1, 2)),
    ("Reshape: samples of 3 elements", lambda: x(3).reshape(5, 2)),
    (r"Concatenate: axis 0 of shape \(-1, 3\) is the batch, which cannot", lambda: function.concatenate([x(3), x(3)], axis=0)),
    (r"Concatenate: shapes \(-1, 3\) and \(-1, 1, 3\) differ on other axes than 1",
     lambda: function.concatenate([x(3), x(1, 3)])),
    ("differ on other axes than 1", lambda: function.concatenate([x(3), np.ones((2, 3))])),
    (r"Concatenate: axis 2 does not exist in shape \(-1, 3\)", lambda: function.concatenate([x(3), x(3)], axis=2)),
    (r"stack: values must have equal shapes, got \(-1, 3\) and \(-1, 2\)", lambda: function.stack([x(3), x(2)])),
    ("stack: axis 3 does not exist in a result of 3 axes", lambda: function.stack([x(3), x(3)], axis=3)),
    (r"Transpose: 'axes' must name every axis of shape \(-1, 3\) once, got \(0, 0\)", lambda: x(3).transpose(0, 0)),
    ("Transpose: 'axes' must name every axis", lambda: x(3).transpose(0, 1, 2)),
    (r"swapaxes: axis 2 does not exist in shape \(-1, 3\)", lambda: x(3).swapaxes(0, 2)),
    (r"Where: shapes \(-1, 3\) and \(4,\) do not fit together", lambda: function.where(x(3) > 0, x(3), np.ones(4))),
    ("Compare: shapes", lambda: x(3) > np.ones(4)),
    (r"TensorDot: the last 1 axes of shape \(-1, 3\) are not the first of shape \(4, 3\)",
     lambda: function.tensordot(x(3), Variable((4, 3)))),
    ("TensorDot: the last 1 axes", lambda: function.tensordot(x(3), x(3))),
    ("TensorDot 'axes' must be a positive integer, got 0", lambda: function.tensordot(x(3), Variable((3,)), 0)),
    *((message, lambda axes=axes: function.tensordot(x(3, 4), np.ones((4, 3, 2)), axes)) for axes, message in [
        (([1],), r"tensordot 'axes' must be a number or a pair, the axes of a and those of b, got \(\[1\],\)"),
        (([1, 2], [0]), "tensordot 'axes' must name equally many axes of a and of b"),
        (([1, 1], [0, 1]), r"tensordot 'axes' must name different axes of shape \(-1, 3, 4\), got \[1, 1\]"),
        (([], []), "must name different axes"),
        ((0, 0), r"tensordot 'axes' must name axes of shape \(-1, 3, 4\) other than the batch, got 0"),
        ((3, 0), "tensordot 'axes' must name axes of shape"),
        ((1, 0), r"TensorDot: the last 1 axes of shape \(-1, 4, 3\) are not the first of shape \(4, 3, 2\)"),
    ]),
    *((message, lambda build=build: build(x(6, 7, 2), Variable((3, 3, 2, 5)))) for message, build in [
        (r"convolution: expected inputs of shape .* or \(batch, time, channels\), all but the batch known, got \(-1, 2\)",
         lambda x, w: function.convolution(x[:, 0, 0], w)),
        ("convolution 'stride' must be one positive integer or 2", lambda x, w: function.convolution(x, w, stride=[1, 2, 3])),
        ("convolution 'padding' must be 'valid', 'same' or", lambda x, w: function.convolution(x, w, padding="full")),
        ("convolution 'groups' must be a positive integer, got 0", lambda x, w: function.convolution(x, w, groups=0)),
        (r"Convolution: axis 3 of the inputs must have 4 channels for a kernel of shape \(3, 3, 2, 5\) and 2 groups, got 2",
         lambda x, w: function.convolution(x, w, groups=2)),
        ("'groups' must divide the 5 filters", lambda x, w: function.convolution(x, np.ones((3, 3, 1, 5)), groups=2)),
        (r"Convolution: axis 1 \(height\) must have at least 3 cells", lambda x, w: function.convolution(x[:, :2], w)),
        ("a bias for 5 filters must have shape", lambda x, w: function.convolution(x, w, np.ones(4))),
        ("max_pool 'size' must be a positive integer, got 0", lambda x, w: function.max_pool(x, size=0)),
        ("average_pool: expected inputs of shape", lambda x, w: function.average_pool(x[:, 0, 0])),
        ("PoolAverage: 'padding' must be smaller than the window", lambda x, w: function.average_pool(x, 2, padding=2)),
        (r"Lookup: a table must have the shape \(rows, features\), got \(3, 3, 2", lambda x, w: function.lookup(x, w)),
    ]),
    *((message, lambda take=take: take(x(3, 4))) for message, take in [
        (r"Index: axis 0 of shape \(-1, 3, 4\) is the batch, where only ':' may stand, got 0", lambda x: x[0]),
        (r"is the batch, where only ':' may stand, got slice\(1, None, None\)", lambda x: x[1:]),
        ("is the batch, where only ':' may stand", lambda x: x[[0, 1]]),
        (r"axis 1 of shape \(4, -1\) is the batch", lambda x: x[:, 0].T[:, 0]),
        (r"Index: 3 is out of range for axis 1 of shape \(-1, 3, 4\)", lambda x: x[:, 3]),
        (r"Index: -5 is out of range for axis 2 of shape \(-1, 3, 4\)", lambda x: x[:, :, [0, -5]]),
        (r"Index: slice\(2, 1, None\) leaves nothing of axis 1 of shape \(-1, 3, 4\)", lambda x: x[:, 2:1]),
        (r"Index: 4 indices for the 3 axes of shape \(-1, 3, 4\)", lambda x: x[:, 0, 0, 0]),
        (r"Index: '\.\.\.' may stand once", lambda x: x[..., 0, ...]),
        (r"Index: an array of integers stands with slices only, got .*; index in two steps", lambda x: x[:, 0, [1, 2]]),
        ("index in two steps", lambda x: x[:, [0], [1]]),
    ]),
    *((rf"{kind.__name__}: {wrong} \(-1, 3\){twice}", lambda kind=kind, axes=axes: kind(axes)(x(3)))
      for kind in (Sum, Mean, Max, Min)
      for axes, wrong, twice in ((2, "axis 2 does not exist in shape", ""),
                                 ((1, -1), "'axis' names an axis of shape", r" twice, got \(1, -1\)"))),
]  # fmt: skip

TYPES: list[tuple[str, Made]] = [
    ("LeakReLU 'alpha' must be a number >= 0 and < 1, got 'x'", lambda: LeakReLU("x")),
    ("GELU 'approximate' must be an instance of bool, got str 'tanh'", lambda: GELU(approximate="tanh")),
    (r"Cosine 'steps' must be a positive integer, got 1\.5", lambda: Cosine(0.1, 1.5)),
    ("WarmUp 'then' must be a number >= 0, got 'fast'", lambda: WarmUp("fast", 5)),
    (r"SGDOptimizer 'learn_rate' must be a number >= 0, got '0\.1'", lambda: SGDOptimizer("0.1")),
    ("RMSPropOptimizer 'centered' must be an instance of bool, got int 1", lambda: gd.RMSPropOptimizer(centered=1)),
    (r"Dense 'units' must be a positive integer, got 2\.0", lambda: Dense(2.0)),
    ("Dense 'units' must be a positive integer, got True", lambda: Dense(True)),
    (r"got the class; write Tanh\(\)", lambda: Dense(2, activation=Tanh)),
    ("Dense 'activation' must be an instance of Activation, got int", lambda: Dense(2, activation=1)),
    ("Dense 'use_bias' must be an instance of bool, got int 1", lambda: Dense(2, use_bias=1)),
    ("Dense 'head' is called on a value of a graph, got ndarray", lambda: Dense(3, name="head")(np.zeros((2, 4)))),
    ("Dense is called on a value of a graph, got int", lambda: Dense(3, inputs=4)),
    (r"Conv2D 'kernel' must be a positive integer, got 2\.0", lambda: Conv2D(2.0)),
    ("Conv2D 'kernel_size' must be a positive integer, got '33'", lambda: Conv2D(2, "33")),
    (r"Conv2D 'padding' must be .* got 0\.5", lambda: Conv2D(2, padding=0.5)),
    ("Conv2D 'padding' must be .* got True", lambda: Conv2D(2, padding=True)),
    (r"got the class; write ReLU\(\)", lambda: Conv2D(4, activation=ReLU)),
    ("Conv2D 'use_bias' must be an instance of bool, got NoneType None", lambda: Conv2D(4, use_bias=None)),
    ("AveragePool 'padding' must be .* got None", lambda: AveragePool(2, padding=None)),
    (r"GRU 'units' must be a positive integer, got 2\.5", lambda: GRU(2.5)),
    ("GRU 'return_sequences' must be an instance of bool, got int 1", lambda: GRU(2, return_sequences=1)),
    ("LSTM 'use_bias' must be an instance of bool, got str 'no'", lambda: LSTM(2, use_bias="no")),
    ("LSTM 'unit_forget_bias' must be an instance of bool", lambda: LSTM(2, unit_forget_bias=None)),
    (r"got the class; write Zeros\(\)", lambda: LSTM(2, recurrent_initializer=Zeros)),
    ("SimpleRNN 'activation' must be an instance of Activation, got int", lambda: SimpleRNN(2, 1)),
    (r"Embedding 'output_dim' must be a positive integer, got 1\.5", lambda: Embedding(3, 1.5)),
    ("Embedding 'initializer' must be an instance of Initializer, got int", lambda: Embedding(3, 3, 1)),
    ("MultiHeadAttention 'causal' must be an instance of bool, got int 1", lambda: MultiHeadAttention(2, 3, causal=1)),
    ("Add is called on a value of a graph, got ndarray", lambda: Add()([x(3), np.ones(3)])),
    (r"Add is called on a list of values, layer\(\[a, b\]\), got 2 arguments", lambda: Add()(x(3), x(3))),
    (r"got Digits; load\(\) of a data set returns x, label, test_x, test_label", lambda: _model().fit(nn.dataset.Digits())),
    ("Dense is called on one value, got 2 arguments", lambda: Dense(3)(x(3), x(3))),
    ("Model needs the argument 'outputs'; its arguments are inputs, outputs, name, seed, dtype", lambda: nn.model.Model(x(3))),
    (r"Concatenate 'axis' must be an integer of at least -32, got 1\.0", lambda: Concatenate(1.0)),
    ("HuberLoss 'delta' must be a number > 0, got '1'", lambda: HuberLoss("1")),
    ("got 'x'", lambda: nn.initializer.Constant("x")),
    ("Orthogonal 'gain' must be a number", lambda: Orthogonal("1")),
    (r"got the class; write Constant\(\)", lambda: Variable([1], nn.initializer.Constant)),
    ("Variable 'trainable' must be an instance of bool, got int 1", lambda: Variable([2], trainable=1)),
    ("concatenate: expected a list of values, got", lambda: function.concatenate(x(3))),
    (r"stack: expected a list of values, got \[\]", lambda: function.stack([])),
    ("tensordot 'axes' must hold integers, got 1.0", lambda: function.tensordot(x(3, 4), np.ones((4, 3, 2)), (1.0, 0))),
    ("an expression takes values, numbers and numeric arrays", lambda: x(3) > "a"),
    (r"an expression takes lists that are arrays, got \[\[1\], \[2, 3\]\]: ", lambda: x(3) + [[1], [2, 3]]),  # noqa: RUF005
    *(("an expression takes values, numbers and numeric arrays", lambda operand=operand: as_value(operand))
      for operand in ("2", None, ["1"], np.array(["a"]), 1j)),
    *((r"Index: an index is an integer, a slice, None, '\.\.\.' or a list of integers, got",
       lambda entry=entry: x(3, 4)[:, entry]) for entry in (1.0, True, "a", [True, False, True], [0.5], [], np.zeros(2))),
    *((f"{kind.__name__} 'axis' must be an integer, a tuple of integers or None, got", lambda kind=kind, axis=axis: kind(axis))
      for kind in (Sum, Mean, Max, Min) for axis in (1.0, "1", True, (0, None))),
    (r"a value has no truth: .* nn\.function\.where", lambda: bool(x(3) > 0)),
    ("a value has no truth", lambda: 0 < x(3) < 1),
    ("a value has no truth", lambda: max(x(3), 0)),
    ("not iterable", lambda: list(x(3))),
    ("does not support ufuncs", lambda: np.exp(x(3))),
]  # fmt: skip


@pytest.mark.parametrize(("message", "make"), [*ARGUMENTS, *INPUTS, *EXPRESSIONS])
def test_wrong_values_are_named(message: str, make: Made) -> None:
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(("message", "make"), TYPES)
def test_wrong_types_are_named(message: str, make: Made) -> None:
    with pytest.raises(TypeError, match=message):
        make()


@pytest.mark.parametrize("shape", [[0], [-1, 2], [2.5], "ab", 3])
def test_a_variable_has_positive_lengths(shape: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="Variable 'shape' must be a list of positive integers, got"):
        Variable(shape)


METHODS: dict[str, tuple[Callable[[Any], Any], Sequence[Any]]] = {
    "fit() 'verbose' must be 0, 1, 2 or 'auto'": (lambda given: _fit(verbose=given), ("yes", 3, -1, None, 1.5, [], np.ones(2))),
    "fit() 'shuffle' must be True or False": (lambda given: _fit(shuffle=given), ("batch", None, 1, np.ones(2))),
    "fit() 'stop_on_nan' must be True or False": (lambda given: _fit(stop_on_nan=given), ("no", 0, None)),
    "fit() 'validation_split' must be a number": (
        lambda given: _fit(validation_split=given),
        ([], "", None, False, np.ones(2)),
    ),
    "predict() 'x' may go with 'unknown' where": (lambda given: _model().predict(X, unknown=given), ("none", "error", 3)),
    "Sum 'keepdims' must be True or False": (lambda given: nn.value.Placeholder([-1, 4]).sum(1, given), ("yes", 1)),
    "MNIST 'download' must be True or False": (lambda given: nn.dataset.MNIST().files(given), ("no", None, 0)),
}
X, Y = np.eye(4), [0, 1, 2, 0]


def _model() -> nn.model.SequentialModel:
    model = nn.model.SequentialModel([-1, 4], [nn.layer.Dense(3)])
    model.compile("sgd", "crossentropy_with_softmax")
    return model


def _fit(**given: Any) -> None:
    _model().fit(X, Y, epochs=1, **{"verbose": 0, **given})


@pytest.mark.parametrize("begin", METHODS)
def test_what_a_method_would_take_for_true_or_false_is_refused(begin: str) -> None:
    """Text such as "no" and "batch" counts as true; nothing was said of it."""
    call, values = METHODS[begin]
    for value in values:
        with pytest.raises((TypeError, ValueError)) as caught:
            call(value)
        assert str(caught.value).startswith(begin), caught.value


@pytest.mark.parametrize("verbose", [0, False, 1, True, 2, "auto"])
def test_words_of_verbose(verbose: Any, capsys: pytest.CaptureFixture[str]) -> None:
    _fit(verbose=verbose)
    assert bool(capsys.readouterr().err + capsys.readouterr().out) == (verbose not in (0, False))
