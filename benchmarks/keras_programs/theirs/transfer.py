"""Transfer: a trained base, frozen, under a new head; then all of it, at a small rate."""

import keras
from keras.layers import BatchNormalization, Conv2D, Dense, GlobalAveragePooling2D

from benchmarks.keras_programs.data import digits

x, y = digits()
x /= 255

image, inputs = keras.Input((8, 8, 1)), keras.Input((8, 8, 1))
hidden = Conv2D(16, 3, activation="relu")(image)
hidden = BatchNormalization()(hidden)
hidden = Conv2D(16, 3, activation="relu")(hidden)
base = keras.Model(image, hidden)

base.trainable = False
hidden = GlobalAveragePooling2D()(base(inputs))
outputs = Dense(10, activation="softmax")(hidden)
model = keras.Model(inputs, outputs)
model.compile(keras.optimizers.Adam(1e-3, epsilon=1e-7), loss="categorical_crossentropy")


def train(callbacks):
    model.fit(x[:320], y[:320], batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
    base.trainable = True
    model.compile(keras.optimizers.Adam(1e-4, epsilon=1e-7), loss="categorical_crossentropy")
    model.fit(x[320:], y[320:], batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
