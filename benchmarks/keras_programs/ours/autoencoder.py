"""A convolutional autoencoder."""

import nn
from nn.layer import Conv2D, Conv2DTranspose, MaxPool as MaxPooling2D

from benchmarks.keras_programs.data import digits

x, _ = digits(size=16)
x /= 255

inputs = nn.Input((16, 16, 1))
hidden = Conv2D(16, (3, 3), activation="relu", padding="same")(inputs)
hidden = MaxPooling2D((2, 2), padding="same")(hidden)
hidden = Conv2D(16, (3, 3), activation="relu", padding="same")(hidden)
hidden = MaxPooling2D((2, 2), padding="same")(hidden)
hidden = Conv2DTranspose(16, (3, 3), strides=2, activation="relu", padding="same")(hidden)
hidden = Conv2DTranspose(16, (3, 3), strides=2, activation="relu", padding="same")(hidden)
outputs = Conv2D(1, (3, 3), activation="sigmoid", padding="same")(hidden)
model = nn.model.Model(inputs, outputs)
model.compile(optimizer=nn.gradient_descent.ADAMOptimizer(3e-4, epsilon=1e-7), loss="binary_crossentropy")


def train(callbacks):
    model.fit(x, x, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
