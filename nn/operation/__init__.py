"""Differentiable operations on arrays.

Users rarely name them: they come from the operators and methods of values, `x @ w + b`, and from `nn.function`.
"""

from typing import TYPE_CHECKING

from nn.lazy import lazily

if TYPE_CHECKING:
    from nn.operation.arithmetic import Add, Compare, Divide, Maximum, Minimum, Multiply, Power, Subtract, Where
    from nn.operation.attention import Attention, CachedAttention, DropoutAttention
    from nn.operation.broadcasting import Broadcasting
    from nn.operation.elementwise import (
        Absolute,
        Elementwise,
        Exp,
        Log,
        Negative,
        Rounding,
        Sqrt,
        Square,
        StopGradient,
    )
    from nn.operation.index import Entry, Index, Lookup
    from nn.operation.matmul import MatMul, TensorDot
    from nn.operation.noise import DropoutOperation, GaussianDropoutOperation, GaussianNoiseOperation, NormalDraw
    from nn.operation.normal import Erf
    from nn.operation.normalization import BatchNormalize, GroupNormalize, LayerNormalize, RMSNormalize
    from nn.operation.operation import Mode, Operation, batch_leads
    from nn.operation.places import TakeAlong, TopPlaces
    from nn.operation.pooling import PoolAverage, PoolMax
    from nn.operation.reduction import Max, Mean, Min, Reduction, Sum
    from nn.operation.rotary import Rotary
    from nn.operation.shape import Concatenate, Pad, Repeat, Reshape, SplitSteps, Transpose
    from nn.operation.slopes import ParametricRectify
    from nn.operation.trigonometric import (
        Arccos,
        Arccosh,
        Arcsin,
        Arcsinh,
        Arctan,
        Arctanh,
        Cos,
        Cosh,
        Sin,
        Sinh,
        Tan,
    )

__all__ = [
    "Absolute",
    "Add",
    "Arccos",
    "Arccosh",
    "Arcsin",
    "Arcsinh",
    "Arctan",
    "Arctanh",
    "Attention",
    "BatchNormalize",
    "Broadcasting",
    "CachedAttention",
    "Compare",
    "Concatenate",
    "Cos",
    "Cosh",
    "Divide",
    "DropoutAttention",
    "DropoutOperation",
    "Elementwise",
    "Entry",
    "Erf",
    "Exp",
    "GaussianDropoutOperation",
    "GaussianNoiseOperation",
    "GroupNormalize",
    "Index",
    "LayerNormalize",
    "Log",
    "Lookup",
    "MatMul",
    "Max",
    "Maximum",
    "Mean",
    "Min",
    "Minimum",
    "Mode",
    "Multiply",
    "Negative",
    "NormalDraw",
    "Operation",
    "Pad",
    "ParametricRectify",
    "PoolAverage",
    "PoolMax",
    "Power",
    "RMSNormalize",
    "Reduction",
    "Repeat",
    "Reshape",
    "Rotary",
    "Rounding",
    "Sin",
    "Sinh",
    "SplitSteps",
    "Sqrt",
    "Square",
    "StopGradient",
    "Subtract",
    "Sum",
    "TakeAlong",
    "Tan",
    "TensorDot",
    "TopPlaces",
    "Transpose",
    "Where",
    "batch_leads",
]
lazily(
    __name__,
    {
        "arithmetic": "Add Compare Divide Maximum Minimum Multiply Power Subtract Where",
        "attention": "Attention CachedAttention DropoutAttention",
        "broadcasting": "Broadcasting",
        "elementwise": "Absolute Elementwise Exp Log Negative Rounding Sqrt Square StopGradient",
        "index": "Entry Index Lookup",
        "matmul": "MatMul TensorDot",
        "normal": "Erf",
        "normalization": "BatchNormalize GroupNormalize LayerNormalize RMSNormalize",
        "noise": "DropoutOperation GaussianDropoutOperation GaussianNoiseOperation NormalDraw",
        "operation": "Mode Operation batch_leads",
        "places": "TakeAlong TopPlaces",
        "pooling": "PoolAverage PoolMax",
        "reduction": "Max Mean Min Reduction Sum",
        "rotary": "Rotary",
        "shape": "Concatenate Pad Repeat Reshape SplitSteps Transpose",
        "slopes": "ParametricRectify",
        "trigonometric": "Arccos Arccosh Arcsin Arcsinh Arctan Arctanh Cos Cosh Sin Sinh Tan",
    },
)
