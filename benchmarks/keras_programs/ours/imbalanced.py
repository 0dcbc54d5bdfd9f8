"""A few frauds among many payments: weights of classes."""

import nn

from benchmarks.keras_programs.data import payments

x, y = payments()
counts = [float((y == 0).sum()), float((y == 1).sum())]
class_weight = {0: len(y) / (2 * counts[0]), 1: len(y) / (2 * counts[1])}

model = nn.model.SequentialModel([-1, 12], [nn.layer.Dense(32, "relu"), nn.layer.Dense(1, "sigmoid")])
optimizer = nn.gradient_descent.ADAMOptimizer(1e-3, epsilon=1e-7)
model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])


def train(callbacks):
    options = {"batch_size": 32, "shuffle": False, "class_weight": class_weight}
    model.fit(x, y, epochs=1, callbacks=callbacks, verbose=0, **options)
