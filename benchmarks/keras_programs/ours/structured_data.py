"""A table of numbers and categories."""

from pathlib import Path
from tempfile import TemporaryDirectory

import nn
from nn.dataset.transforms import Normalize
from nn.layer import Dense

from benchmarks.keras_programs.data import table

with TemporaryDirectory() as folder:
    Path(folder, "patients.csv").write_text(table())
    x, y, _, _ = Normalize()(*nn.dataset.CSVDataset(Path(folder, "patients.csv"), "target", split="last").load())

inputs = nn.Input((8,))
hidden = Dense(32, activation="relu")(inputs)
outputs = Dense(1, activation="sigmoid")(hidden)
model = nn.model.Model(inputs, outputs)
optimizer = nn.gradient_descent.ADAMOptimizer(1e-3, epsilon=1e-7)
model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
