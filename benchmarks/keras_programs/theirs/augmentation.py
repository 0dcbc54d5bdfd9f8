"""Image classification from scratch: rescaled and mirrored images, separable convolutions with residuals."""

import keras
import numpy as np
from keras.layers import Activation, Add, BatchNormalization, Conv2D, Dense, GlobalAveragePooling2D, MaxPooling2D, Rescaling
from keras.layers import SeparableConv2D

from benchmarks.keras_programs.data import digits

x, y = digits(size=16)
# Layers that draw would draw other images in each library.
x = np.where(np.random.default_rng(0).random((len(x), 1, 1, 1)) < 0.5, x[:, :, ::-1], x)

inputs = keras.Input((16, 16, 1))
hidden = Rescaling(1.0 / 255)(inputs)
hidden = Conv2D(16, 3, strides=2, padding="same")(hidden)
hidden = Activation("relu")(BatchNormalization()(hidden))
residual = Conv2D(32, 1, strides=2, padding="same")(hidden)
hidden = BatchNormalization()(SeparableConv2D(32, 3, padding="same")(hidden))
hidden = BatchNormalization()(SeparableConv2D(32, 3, padding="same")(Activation("relu")(hidden)))
hidden = Add()([MaxPooling2D(3, strides=2, padding="same")(hidden), residual])
outputs = Dense(10, activation="softmax")(GlobalAveragePooling2D()(hidden))
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-4, epsilon=1e-7), loss="categorical_crossentropy", metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
