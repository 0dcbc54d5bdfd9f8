"""A Siamese network with the contrastive loss."""

import keras
from keras import ops
from keras.layers import AveragePooling2D, BatchNormalization, Conv2D, Dense, Flatten, Lambda

from benchmarks.keras_programs.data import digit_pairs

left, right, y = digit_pairs()

image = keras.Input((8, 8, 1))
hidden = Conv2D(8, (3, 3), activation="tanh")(image)
hidden = AveragePooling2D(pool_size=(2, 2))(hidden)
hidden = Flatten()(hidden)
hidden = Dense(10, activation="tanh")(hidden)
embedding = keras.Model(image, hidden)


def distance(vectors):
    squares = ops.sum(ops.square(vectors[0] - vectors[1]), axis=1, keepdims=True)
    return ops.sqrt(ops.maximum(squares, 1e-7))


def contrastive(margin=1.0):
    def loss(y_true, y_pred):
        near, far = ops.square(y_pred), ops.square(ops.maximum(margin - y_pred, 0))
        return ops.mean((1 - y_true) * near + y_true * far)

    return loss


inputs = [keras.Input((8, 8, 1)), keras.Input((8, 8, 1))]
merged = Lambda(distance)([embedding(inputs[0]), embedding(inputs[1])])
outputs = Dense(1, activation="sigmoid")(BatchNormalization()(merged))
model = keras.Model(inputs, outputs)
model.compile(loss=contrastive(margin=1.0), optimizer=keras.optimizers.RMSprop(1e-4, epsilon=1e-7), metrics=["accuracy"])


def train(callbacks):
    model.fit([left, right], y, batch_size=32, epochs=1, shuffle=False, callbacks=callbacks, verbose=0)
