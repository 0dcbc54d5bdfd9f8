"""Arguments that constructors refuse: the message names the class, the argument, what is expected and what came."""

from collections.abc import Callable

import pytest

import nn
from nn import gradient_descent as gd
from nn.activation import ELU, GELU, LeakReLU
from nn.gradient_descent import ADAMOptimizer, Constant, Cosine, ExponentialDecay, SGDOptimizer, StepDecay, WarmUp
from nn.initializer import Zeros
from nn.layer import GRU, LSTM, AveragePool, Conv1D, Conv2D, Dense, Dropout, Embedding, MaxPool, Reshape, SimpleRNN
from nn.loss import Cross_Entropy_With_Softmax


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: LeakReLU(1), ValueError, "LeakReLU 'alpha' must be a number >= 0 and < 1, got 1"),
        (lambda: LeakReLU("x"), TypeError, "LeakReLU 'alpha' must be a number >= 0 and < 1, got 'x'"),
        (lambda: ELU(-0.1), ValueError, "ELU 'alpha' must be a number >= 0, got -0.1"),
        (lambda: GELU(approximate="tanh"), TypeError, "GELU 'approximate' must be an instance of bool, got str 'tanh'"),
        (lambda: Constant(-1), ValueError, "Constant 'rate' must be a number >= 0, got -1"),
        (lambda: Cosine(0.1, 0), ValueError, "Cosine 'steps' must be a positive integer, got 0"),
        (lambda: Cosine(0.1, 1.5), TypeError, r"Cosine 'steps' must be a positive integer, got 1\.5"),
        (lambda: Cosine(0.1, 1, final=-1), ValueError, "Cosine 'final' must be a number >= 0, got -1"),
        (lambda: StepDecay(0.1, 5, factor=2), ValueError, "StepDecay 'factor' must be a number from 0 to 1, got 2"),
        (lambda: ExponentialDecay(0.1, 5, 2), ValueError, "ExponentialDecay 'factor' must be a number from 0 to 1, got 2"),
        (lambda: WarmUp("fast", 5), TypeError, "WarmUp 'then' must be a number >= 0, got 'fast'"),
        (lambda: WarmUp(1, 5, start=-1), ValueError, "WarmUp 'start' must be a number >= 0, got -1"),
        (lambda: SGDOptimizer(-1), ValueError, "SGDOptimizer 'learn_rate' must be a number >= 0, got -1"),
        (lambda: ADAMOptimizer(float("nan")), ValueError, "ADAMOptimizer 'learn_rate' must be a number >= 0, got nan"),
        (lambda: ADAMOptimizer(beta1=1), ValueError, "'beta1' must be a number >= 0 and < 1, got 1"),
        (lambda: ADAMOptimizer(epsilon=0), ValueError, "'epsilon' must be a number > 0, got 0"),
        (
            lambda: gd.MomentumOptimizer(momentum=1),
            ValueError,
            "MomentumOptimizer 'momentum' must be a number >= 0 and < 1, got 1",
        ),
        (lambda: gd.NesterovOptimizer(momentum=-0.1), ValueError, r"NesterovOptimizer 'momentum' must be .*, got -0\.1"),
        (lambda: gd.AdaGradOptimizer(epsilon=0), ValueError, "AdaGradOptimizer 'epsilon' must be a number > 0, got 0"),
        (lambda: gd.AdaDeltaOptimizer(rho=1), ValueError, "AdaDeltaOptimizer 'rho' must be a number >= 0 and < 1, got 1"),
        (lambda: gd.RMSPropOptimizer(rho=1.5), ValueError, "RMSPropOptimizer 'rho' must be a number >= 0 and < 1, got 1.5"),
        (lambda: gd.GradientDecay(decay=-1), ValueError, "GradientDecay 'decay' must be a number >= 0, got -1"),
        (lambda: SGDOptimizer(weight_decay=-1), ValueError, "SGDOptimizer 'weight_decay' must be a number >= 0, got -1"),
        (lambda: SGDOptimizer(clip_value=0), ValueError, "SGDOptimizer 'clip_value' must be a number > 0, got 0"),
        (lambda: SGDOptimizer(clip_norm=-1), ValueError, "SGDOptimizer 'clip_norm' must be a number > 0, got -1"),
        (
            lambda: SGDOptimizer(clip_norm=1, clip_value=1),
            ValueError,
            "SGDOptimizer takes 'clip_value' or 'clip_norm', got both",
        ),
        (lambda: Dense(0), ValueError, "Dense 'units' must be a positive integer, got 0"),
        (lambda: Dense(2.0), TypeError, r"Dense 'units' must be a positive integer, got 2\.0"),
        (lambda: Dense(True), TypeError, "Dense 'units' must be a positive integer, got True"),
        (lambda: Dense(2, activation=nn.activation.Tanh), TypeError, r"got the class; write Tanh\(\)"),
        (lambda: Dense(2, activation="tanh"), TypeError, "Dense 'activation' must be an instance of Activation, got str"),
        (lambda: Dense(2, use_bias=1), TypeError, "Dense 'use_bias' must be an instance of bool, got int 1"),
        (lambda: Dense(2, name="a/b"), ValueError, "Dense 'name' must be a non-empty text without '/', got 'a/b'"),
        (lambda: Dropout(1), ValueError, "Dropout 'rate' must be a number >= 0 and < 1, got 1"),
        (lambda: Dropout(-0.1), ValueError, r"Dropout 'rate' must be a number >= 0 and < 1, got -0\.1"),
        (lambda: Reshape([2, 0]), ValueError, r"Reshape 'shape' must be .* got \[2, 0\]"),
        (lambda: Reshape([-1, -1]), ValueError, "with at most one -1"),
        (lambda: Conv2D(0), ValueError, "Conv2D 'kernel' must be a positive integer, got 0"),
        (lambda: Conv2D(2.0), TypeError, r"Conv2D 'kernel' must be a positive integer, got 2\.0"),
        (lambda: Conv2D(2, [3]), ValueError, r"Conv2D 'kernel_size' must be one positive integer or 2 of them, got \[3\]"),
        (lambda: Conv2D(2, [3, 0]), ValueError, r"Conv2D 'kernel_size' must be a list of positive integers, got \[3, 0\]"),
        (lambda: Conv2D(2, "33"), TypeError, "Conv2D 'kernel_size' must be a positive integer, got '33'"),
        (lambda: Conv2D(2, stride=0), ValueError, "Conv2D 'stride' must be a positive integer, got 0"),
        (lambda: Conv2D(2, padding="full"), ValueError, "must be 'valid', 'same' or an integer of at least 0, got 'full'"),
        (lambda: Conv2D(2, padding=-1), ValueError, "Conv2D 'padding' must be 'valid', 'same' or an integer .* got -1"),
        (lambda: Conv2D(2, padding=0.5), TypeError, r"Conv2D 'padding' must be .* got 0\.5"),
        (lambda: Conv2D(2, padding=True), TypeError, "Conv2D 'padding' must be .* got True"),
        (lambda: Conv2D(4, groups=3), ValueError, "Conv2D 'groups' must divide the 4 filters, got 3"),
        (lambda: Conv2D(4, activation=nn.activation.ReLU), TypeError, r"got the class; write ReLU\(\)"),
        (lambda: Conv2D(4, use_bias=None), TypeError, "Conv2D 'use_bias' must be an instance of bool, got NoneType None"),
        (lambda: Conv1D(2, [3, 3]), ValueError, "Conv1D 'kernel_size' must be one positive integer or 1 of them"),
        (lambda: MaxPool(0), ValueError, "MaxPool 'size' must be a positive integer, got 0"),
        (lambda: MaxPool(2, [1, 2, 3]), ValueError, "MaxPool 'stride' must be one positive integer or 2 of them"),
        (lambda: AveragePool(2, padding=None), TypeError, "AveragePool 'padding' must be .* got None"),
        (lambda: LSTM(0), ValueError, "LSTM 'units' must be a positive integer, got 0"),
        (lambda: GRU(2.5), TypeError, r"GRU 'units' must be a positive integer, got 2\.5"),
        (lambda: GRU(2, return_sequences=1), TypeError, "GRU 'return_sequences' must be an instance of bool, got int 1"),
        (lambda: LSTM(2, use_bias="no"), TypeError, "LSTM 'use_bias' must be an instance of bool, got str 'no'"),
        (lambda: LSTM(2, unit_forget_bias=None), TypeError, "LSTM 'unit_forget_bias' must be an instance of bool"),
        (lambda: LSTM(2, recurrent_initializer=Zeros), TypeError, r"got the class; write Zeros\(\)"),
        (lambda: SimpleRNN(2, "tanh"), TypeError, "SimpleRNN 'activation' must be an instance of Activation, got str"),
        (lambda: LSTM(2, name="a/b"), ValueError, "LSTM 'name' must be a non-empty text without '/'"),
        (lambda: Embedding(0, 3), ValueError, "Embedding 'input_dim' must be a positive integer, got 0"),
        (lambda: Embedding(3, 1.5), TypeError, r"Embedding 'output_dim' must be a positive integer, got 1\.5"),
        (lambda: Embedding(3, 3, "uniform"), TypeError, "Embedding 'initializer' must be an instance of Initializer, got str"),
        (lambda: nn.loss.HuberLoss(0), ValueError, "HuberLoss 'delta' must be a number > 0, got 0"),
        (lambda: nn.loss.HuberLoss("1"), TypeError, "HuberLoss 'delta' must be a number > 0, got '1'"),
        (lambda: Cross_Entropy_With_Softmax(1.0), ValueError, "'label_smoothing' must be a number >= 0 and < 1, got 1.0"),
    ],
)
def test_wrong_arguments_are_named(make: Callable[[], object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
