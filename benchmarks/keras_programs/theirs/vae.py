"""A variational autoencoder, its draws left out so that the losses can be compared."""

import keras
from keras import ops
from keras.layers import Conv2D, Conv2DTranspose, Dense, Flatten, Reshape

from benchmarks.keras_programs.data import digits

x, _ = digits(size=16)
x /= 255

DRAWN = 0.0

image = keras.Input((16, 16, 1))
hidden = Conv2D(16, 3, activation="relu", strides=2, padding="same")(image)
hidden = Conv2D(16, 3, activation="relu", strides=2, padding="same")(hidden)
hidden = Dense(16, activation="relu")(Flatten()(hidden))
mean, log_variance = Dense(2)(hidden), Dense(2)(hidden)


class Sampling(keras.layers.Layer):
    """Draw of a code."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.draws = keras.random.SeedGenerator(1)

    def call(self, values):
        mean, log_variance = values
        drawn = keras.random.normal(ops.shape(mean), seed=self.draws) * DRAWN
        return mean + ops.exp(0.5 * log_variance) * drawn


class Divergence(keras.layers.Layer):
    """Loss of a code that is far from a normal one."""

    def call(self, values):
        mean, log_variance = values
        each = -0.5 * (1 + log_variance - ops.square(mean) - ops.exp(log_variance))
        self.add_loss(ops.mean(ops.sum(each, axis=1)))
        return mean


mean = Divergence()([mean, log_variance])
encoder = keras.Model(image, Sampling()([mean, log_variance]))
code = keras.Input((2,))
hidden = Reshape((4, 4, 16))(Dense(256, activation="relu")(code))
hidden = Conv2DTranspose(16, 3, activation="relu", strides=2, padding="same")(hidden)
hidden = Conv2DTranspose(8, 3, activation="relu", strides=2, padding="same")(hidden)
decoder = keras.Model(code, Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(hidden))
inputs = keras.Input((16, 16, 1))
model = keras.Model(inputs, decoder(encoder(inputs)))
model.compile(keras.optimizers.Adam(5e-4, epsilon=1e-7), loss="binary_crossentropy")


def train(callbacks):
    model.fit(x, x, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
