"""Image classification from scratch: rescaled and mirrored images, separable convolutions with residuals."""

import nn
import numpy as np
from nn.layer import Activation, Add, BatchNorm as BatchNormalization, Conv2D, Dense, MaxPool as MaxPooling2D, Rescaling
from nn.layer import GlobalAveragePool as GlobalAveragePooling2D, SeparableConv2D

from benchmarks.keras_programs.data import digits

x, y = digits(size=16)
# Layers that draw would draw other images in each library.
x = np.where(np.random.default_rng(0).random((len(x), 1, 1, 1)) < 0.5, x[:, :, ::-1], x)

inputs = nn.Input((16, 16, 1))
hidden = Rescaling(1.0 / 255)(inputs)
hidden = Conv2D(16, 3, strides=2, padding="same")(hidden)
hidden = Activation("relu")(BatchNormalization()(hidden))
residual = Conv2D(32, 1, strides=2, padding="same")(hidden)
hidden = BatchNormalization()(SeparableConv2D(32, 3, padding="same")(hidden))
hidden = BatchNormalization()(SeparableConv2D(32, 3, padding="same")(Activation("relu")(hidden)))
hidden = Add()([MaxPooling2D(3, strides=2, padding="same")(hidden), residual])
outputs = Dense(10, activation="softmax")(GlobalAveragePooling2D()(hidden))
model = nn.model.Model(inputs, outputs)
model.compile(
    optimizer=nn.gradient_descent.ADAMOptimizer(3e-4, epsilon=1e-7), loss="categorical_crossentropy", metrics=["accuracy"]
)


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
