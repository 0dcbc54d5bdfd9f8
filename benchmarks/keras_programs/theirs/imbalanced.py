"""A few frauds among many payments: weights of classes."""

import keras

from benchmarks.keras_programs.data import payments

x, y = payments()
counts = [float((y == 0).sum()), float((y == 1).sum())]
class_weight = {0: len(y) / (2 * counts[0]), 1: len(y) / (2 * counts[1])}

model = keras.Sequential([keras.layers.Dense(32, "relu"), keras.layers.Dense(1, "sigmoid")])
model.build((None, 12))
optimizer = keras.optimizers.Adam(1e-3, epsilon=1e-7)
model.compile(optimizer, "binary_crossentropy", metrics=["accuracy"])


def train(callbacks):
    options = {"batch_size": 32, "shuffle": False, "class_weight": class_weight}
    model.fit(x, y, epochs=1, callbacks=callbacks, verbose=0, **options)
