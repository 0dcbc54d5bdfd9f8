"""A convolutional network for digits."""

import keras
from keras.layers import Conv2D, Dense, Flatten, MaxPooling2D

from benchmarks.keras_programs.data import digits

x, y = digits(size=16)
x /= 255

model = keras.Sequential([keras.Input((16, 16, 1))])
model.add(Conv2D(16, kernel_size=(3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Conv2D(32, kernel_size=(3, 3), activation="relu"))
model.add(MaxPooling2D(pool_size=(2, 2)))
model.add(Flatten())
model.add(Dense(10, activation="softmax"))
optimizer = keras.optimizers.Adam(2e-4, epsilon=1e-7)
model.compile(loss="categorical_crossentropy", optimizer=optimizer, metrics=["accuracy"])


def train(callbacks):
    model.fit(x, y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
