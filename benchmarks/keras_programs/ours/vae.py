"""A variational autoencoder, its draws left out so that the losses can be compared."""

import nn
from nn import function as ops
from nn.layer import Conv2D, Conv2DTranspose, Dense, Flatten, Reshape

from benchmarks.keras_programs.data import digits

x, _ = digits(size=16)
x /= 255

DRAWN = 0.0

image = nn.Input((16, 16, 1))
hidden = Conv2D(16, 3, activation="relu", strides=2, padding="same")(image)
hidden = Conv2D(16, 3, activation="relu", strides=2, padding="same")(hidden)
hidden = Dense(16, activation="relu")(Flatten()(hidden))
mean, log_variance = Dense(2)(hidden), Dense(2)(hidden)
drawn = ops.normal(mean) * DRAWN
encoder = nn.model.Model(image, mean + ops.exp(0.5 * log_variance) * drawn)
each = -0.5 * (1 + log_variance - ops.square(mean) - ops.exp(log_variance))
encoder.add_loss(ops.mean(ops.sum(each, axis=1)))
code = nn.Input((2,))
hidden = Reshape((4, 4, 16))(Dense(256, activation="relu")(code))
hidden = Conv2DTranspose(16, 3, activation="relu", strides=2, padding="same")(hidden)
hidden = Conv2DTranspose(8, 3, activation="relu", strides=2, padding="same")(hidden)
decoder = nn.model.Model(code, Conv2DTranspose(1, 3, activation="sigmoid", padding="same")(hidden))
inputs = nn.Input((16, 16, 1))
model = nn.model.Model(inputs, decoder(encoder(inputs)))
model.compile(nn.gradient_descent.ADAMOptimizer(5e-4, epsilon=1e-7), loss="binary_crossentropy")


def train(callbacks):
    model.fit(x, x, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
