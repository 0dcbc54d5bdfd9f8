"""A miniature GPT: one causal block of a transformer over learned positions."""

import nn
import numpy as np
from nn.layer import Add, Dense, Embedding, LayerNorm as LayerNormalization, MultiHeadAttention

from benchmarks.keras_programs.data import text

x, y = text(letters=30, length=24)
places = np.broadcast_to(np.arange(24), x.shape)

letters, positions = nn.Input((24,)), nn.Input((24,))
hidden = Add()([Embedding(30, 32)(letters), Embedding(24, 32)(positions)])
attention = MultiHeadAttention(num_heads=2, key_dim=16, causal=True)(hidden)
hidden = LayerNormalization(epsilon=1e-6)(Add()([hidden, attention]))
wide = Dense(32)(Dense(64, activation="relu")(hidden))
hidden = LayerNormalization(epsilon=1e-6)(Add()([hidden, wide]))
outputs = Dense(30, activation="softmax")(hidden)
model = nn.model.Model([letters, positions], outputs)
model.compile(nn.gradient_descent.ADAMOptimizer(7e-4, epsilon=1e-7), loss="sparse_categorical_crossentropy")


def train(callbacks):
    model.fit([x, places], y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
