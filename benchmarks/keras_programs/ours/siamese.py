"""A Siamese network with the contrastive loss."""

import nn
from nn import function as ops
from nn.layer import AveragePool as AveragePooling2D, BatchNorm as BatchNormalization, Conv2D, Dense, Flatten, Lambda

from benchmarks.keras_programs.data import digit_pairs

left, right, y = digit_pairs()

image = nn.Input((8, 8, 1))
hidden = Conv2D(8, (3, 3), activation="tanh")(image)
hidden = AveragePooling2D(pool_size=(2, 2))(hidden)
hidden = Flatten()(hidden)
hidden = Dense(10, activation="tanh")(hidden)
embedding = nn.model.Model(image, hidden)


def distance(vectors):
    squares = ops.sum(ops.square(vectors[0] - vectors[1]), axis=1, keepdims=True)
    return ops.sqrt(ops.maximum(squares, 1e-7))


inputs = [nn.Input((8, 8, 1)), nn.Input((8, 8, 1))]
merged = Lambda(distance)([embedding(inputs[0]), embedding(inputs[1])])
outputs = Dense(1, activation="sigmoid")(BatchNormalization()(merged))
model = nn.model.Model(inputs, outputs)
model.compile(nn.gradient_descent.RMSPropOptimizer(1e-4, epsilon=1e-7), nn.loss.Contrastive(margin=1.0), ["binary_accuracy"])


def train(callbacks):
    model.fit([left, right], y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
