"""Bidirectional LSTMs over texts of different lengths."""

import nn
from nn.layer import LSTM, Bidirectional, Dense, Embedding

from benchmarks.keras_programs.data import reviews

x, y = reviews(words=200)

inputs = nn.Input((None,))
hidden = Embedding(200, 16, mask_zero=True)(inputs)
hidden = Bidirectional(LSTM(16, return_sequences=True))(hidden)
hidden = Bidirectional(LSTM(16))(hidden)
outputs = Dense(1, activation="sigmoid")(hidden)
model = nn.model.Model(inputs, outputs)
optimizer = nn.gradient_descent.ADAMOptimizer(5e-4, epsilon=1e-7)
model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
