"""Layers and operations that change images by draws; what they compute from given draws is checked beside Keras."""

from nn import layer
from nn.operation import augmentation as op
from tests.contract.nn_rows.graph_row import GraphRow

MOVES = op.Moves((-0.5, 0.5), (0.7, 1.3), (0.8, 1.1), (-0.2, 0.2), (-0.3, 0.3))
EDGES: tuple[op.FillMode, ...] = ("reflect", "wrap", "constant", "nearest")

OPERATIONS_AUGMENTATION = [
    GraphRow(op.Flip, lambda: op.Flip((1, 2)), (2, 3, 2), None),
    *[
        GraphRow(op.Affine, lambda edge=edge: op.Affine(MOVES, "bilinear", edge, 0.5), (3, 4, 2), None, label=edge)
        for edge in EDGES
    ],
    GraphRow(op.Affine, lambda: op.Affine(MOVES, "nearest", "reflect", 0.0), (3, 4, 2), None, label="of the nearest pixels"),
    GraphRow(op.Crop, lambda: op.Crop(2, 3), (4, 4, 2), None),
    GraphRow(op.Contrast, lambda: op.Contrast((0.5, 1.5), (-0.7, 0.9)), (3, 2, 2), None),
]

LAYERS_AUGMENTATION = [
    GraphRow(layer.RandomFlip, lambda: layer.RandomFlip("horizontal"), (2, 3, 1), None),
    GraphRow(layer.RandomRotation, lambda: layer.RandomRotation((-0.1, 0.2), "constant", fill_value=0.3), (3, 3, 2), None),
    GraphRow(layer.RandomZoom, lambda: layer.RandomZoom(0.4), (3, 4, 1), None),
    GraphRow(layer.RandomZoom, lambda: layer.RandomZoom(0.4, (0.1, 0.2), "wrap"), (3, 4, 1), None, label="of both axes"),
    GraphRow(layer.RandomTranslation, lambda: layer.RandomTranslation(0.3, (0.0, 0.5), "nearest"), (3, 4, 1), None),
    GraphRow(layer.RandomCrop, lambda: layer.RandomCrop(2, 3), (4, 4, 1), None),
    GraphRow(layer.RandomContrast, lambda: layer.RandomContrast((0.2, 0.6), (-2, 2)), (3, 2, 2), None),
]
