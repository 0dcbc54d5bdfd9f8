"""A forecast of a time series from its last 24 hours."""

import nn
import numpy as np
from nn.layer import GRU, LSTM, Dense

from benchmarks.keras_programs.data import series

rows = series()
x = np.lib.stride_tricks.sliding_window_view(rows, 24, axis=0)[:640].transpose(0, 2, 1)
y = rows[24 : 24 + 640, :1]

inputs = nn.Input((24, 4))
hidden = LSTM(24, return_sequences=True)(inputs)
hidden = GRU(16)(hidden)
outputs = Dense(1)(hidden)
model = nn.model.Model(inputs, outputs)
model.compile(optimizer=nn.gradient_descent.ADAMOptimizer(1e-3, epsilon=1e-7), loss="mse", metrics=["mae"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
