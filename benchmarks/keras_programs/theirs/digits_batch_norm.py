"""A convolutional network with batch normalisation, trained with momentum."""

import keras
from keras.layers import Activation, BatchNormalization, Conv2D, Dense, GlobalAveragePooling2D

from benchmarks.keras_programs.data import digits

x, y = digits()
x /= 255

model = keras.Sequential([keras.Input((8, 8, 1))])
model.add(Conv2D(16, 3, padding="same", use_bias=False))
model.add(BatchNormalization())
model.add(Activation("relu"))
model.add(Conv2D(32, 3, strides=2, padding="same", use_bias=False))
model.add(BatchNormalization())
model.add(Activation("relu"))
model.add(GlobalAveragePooling2D())
model.add(Dense(10, activation="softmax"))
optimizer = keras.optimizers.SGD(0.02, momentum=0.9)
model.compile(optimizer=optimizer, loss="categorical_crossentropy", metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
