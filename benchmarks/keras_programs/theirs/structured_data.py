"""A table of numbers and categories."""

import io

import keras
import numpy as np
import pandas as pd
from keras.layers import Dense

from benchmarks.keras_programs.data import table

frame = pd.read_csv(io.StringIO(table())).iloc[:640]
target = frame.pop("target")


def encode_numerical(name):
    values = frame[name].to_numpy(np.float64)
    return ((values - values.mean()) / values.std())[:, None]


def encode_categorical(name):
    values = frame[name]
    columns = []
    for category in sorted(values.unique()):
        column = (values == category).to_numpy(np.float64)
        spread = column.std()
        columns.append((column - column.mean()) / spread)
    return np.stack(columns, axis=1)


numerical = [encode_numerical(name) for name in ["age", "pressure"]]
categorical = [encode_categorical(name) for name in ["chest", "thal"]]
x = np.concatenate(numerical + categorical, axis=1).astype(np.float32)
y = target.to_numpy(np.float32)[:, None]

inputs = keras.Input((8,))
hidden = Dense(32, activation="relu")(inputs)
outputs = Dense(1, activation="sigmoid")(hidden)
model = keras.Model(inputs, outputs)
optimizer = keras.optimizers.Adam(1e-3, epsilon=1e-7)
model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
