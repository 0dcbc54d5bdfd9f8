"""Image segmentation in the manner of a U-Net: down, up, and across."""

import keras
from keras.layers import BatchNormalization, Concatenate, Conv2D, Conv2DTranspose, MaxPooling2D, UpSampling2D

from benchmarks.keras_programs.data import digit_masks

x, y = digit_masks()

inputs = keras.Input((16, 16, 1))
fine = Conv2D(8, 3, activation="relu", padding="same")(inputs)
coarse = Conv2D(16, 3, activation="relu", padding="same")(MaxPooling2D(2)(fine))
deep = BatchNormalization()(Conv2D(32, 3, activation="relu", padding="same")(MaxPooling2D(2)(coarse)))
hidden = Concatenate()([Conv2DTranspose(16, 3, strides=2, padding="same")(deep), coarse])
hidden = Conv2D(16, 3, activation="relu", padding="same")(hidden)
hidden = Concatenate()([UpSampling2D(2)(hidden), fine])
outputs = Conv2D(1, 3, activation="sigmoid", padding="same")(hidden)
model = keras.Model(inputs, outputs)
model.compile(optimizer=keras.optimizers.Adam(3e-4, epsilon=1e-7), loss="binary_crossentropy")


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
