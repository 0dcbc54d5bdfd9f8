"""The contract table of `nn`: one row, at least, for every kind of operation, activation, layer, loss, metric and rule.

A new class without a row fails `test_nn_kinds.py`.
"""

from tests.contract.nn_rows.activations import ACTIVATIONS
from tests.contract.nn_rows.augmentation import LAYERS_AUGMENTATION, OPERATIONS_AUGMENTATION
from tests.contract.nn_rows.convolution import LAYERS_CONVOLUTION, OPERATIONS_CONVOLUTION
from tests.contract.nn_rows.graph_row import GraphRow
from tests.contract.nn_rows.layers import LAYERS
from tests.contract.nn_rows.losses import LOSSES, LossRow
from tests.contract.nn_rows.metrics import METRICS, MetricRow
from tests.contract.nn_rows.operations import OPERATIONS
from tests.contract.nn_rows.recurrent import LAYERS_RECURRENT, OPERATIONS_RECURRENT
from tests.contract.nn_rows.rules import RULES, RuleRow

LAYERS = [*LAYERS, *LAYERS_CONVOLUTION, *LAYERS_RECURRENT, *LAYERS_AUGMENTATION]
OPERATIONS = [*OPERATIONS, *OPERATIONS_CONVOLUTION, *OPERATIONS_RECURRENT, *OPERATIONS_AUGMENTATION]

__all__ = [
    "ACTIVATIONS", "LAYERS", "LOSSES", "METRICS", "OPERATIONS", "RULES", "GraphRow", "LossRow", "MetricRow", "RuleRow",
]  # fmt: skip
