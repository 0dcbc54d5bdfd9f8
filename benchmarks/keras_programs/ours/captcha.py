"""Text in images: convolutions, a recurrence from left to right, and connectionist temporal classification (CTC)."""

import nn
from nn.layer import GRU, Bidirectional, Conv2D, Dense, MaxPool as MaxPooling2D, Permute, Reshape

from benchmarks.keras_programs.data import digit_rows

x, y = digit_rows(length=3)

inputs = nn.Input((8, 24, 1))
hidden = Conv2D(16, 3, activation="relu", padding="same")(inputs)
hidden = MaxPooling2D((2, 2))(hidden)
hidden = Reshape((12, 64))(Permute((2, 1, 3))(hidden))
hidden = Bidirectional(GRU(16, return_sequences=True))(hidden)
outputs = Dense(11)(hidden)
model = nn.model.Model(inputs, outputs)
model.compile(optimizer=nn.gradient_descent.ADAMOptimizer(3e-4, epsilon=1e-7), loss=nn.loss.CTC())


def train(callbacks):
    model.fit(x, y + 1, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
