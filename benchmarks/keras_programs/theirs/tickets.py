"""Three inputs and two outputs, with weights of their losses."""

import keras
from keras.layers import LSTM, Concatenate, Dense, Embedding

from benchmarks.keras_programs.data import tickets

x, y = tickets(words=100)

title = keras.Input((None,), name="title")
body = keras.Input((None,), name="body")
tags = keras.Input((8,), name="tags")
title_features = LSTM(16)(Embedding(100, 16)(title))
body_features = LSTM(8)(Embedding(100, 16)(body))
features = Concatenate()([title_features, body_features, tags])
priority = Dense(1, activation="sigmoid", name="priority")(features)
department = Dense(4, activation="softmax", name="department")(features)
model = keras.Model([title, body, tags], {"priority": priority, "department": department})
model.compile(
    optimizer=keras.optimizers.Adam(1e-3, epsilon=1e-7),
    loss={"priority": "binary_crossentropy", "department": "categorical_crossentropy"},
    loss_weights={"priority": 1.0, "department": 0.2},
)


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
