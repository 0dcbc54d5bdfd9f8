"""Bidirectional LSTMs over texts of different lengths."""

import keras
from keras.layers import LSTM, Bidirectional, Dense, Embedding

from benchmarks.keras_programs.data import reviews

x, y = reviews(words=200)

inputs = keras.Input((None,))
hidden = Embedding(200, 16, mask_zero=True)(inputs)
hidden = Bidirectional(LSTM(16, return_sequences=True))(hidden)
hidden = Bidirectional(LSTM(16))(hidden)
outputs = Dense(1, activation="sigmoid")(hidden)
model = keras.Model(inputs, outputs)
optimizer = keras.optimizers.Adam(5e-4, epsilon=1e-7)
model.compile(optimizer, loss="binary_crossentropy", metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
