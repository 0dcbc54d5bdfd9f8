"""Class numbers made one-hot rows."""

from typing import Any

from nn import arguments
from nn.arrays import Array, refuse_masked
from nn.dataset.checksum import Arrays
from nn.dataset.transforms.abstract import AbsTransformer
from nn.dataset.transforms.labels import class_numbers, one_hot

__all__ = ["OneHot"]


class OneHot(AbsTransformer):
    """Labels to one-hot rows: class numbers ``(n,)`` or ``(n, 1)`` become float32 ``(n, classes)``; samples stay.

    ``rows[i, j] = 1 if labels[i] == j else 0``. Class numbers are integers, booleans or whole floats. Without `classes` there
    are as many as the largest label of training and test set says, plus one.

    Raises ValueError for labels that are no class numbers, or are negative or not below `classes`.

    >>> x, y = np.zeros((2, 1)), np.array([2, 0])
    >>> nn.dataset.transforms.OneHot(classes=3)(x, y, x, y)[1].tolist()
    [[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]
    """

    def __init__(self, classes: int | None = None) -> None:
        self.classes = None if classes is None else arguments.integer(self, "classes", classes, minimum=1)

    def get_config(self) -> dict[str, Any]:
        """Return the constructor's keywords."""
        return {"classes": self.classes}

    def __call__(self, train_x: Array, train_y: Array, test_x: Array, test_y: Array, seed: int = 0) -> Arrays:
        """Return the labels of both parts as rows; nothing is random here."""
        refuse_masked("OneHot labels", train_y, test_y)
        for labels in (train_y, test_y):
            if labels.size != len(labels) or not labels.size:
                raise ValueError(f"OneHot needs labels of shape (n,) or (n, 1), got {labels.shape}")
        train, test = class_numbers(self, train_y), class_numbers(self, test_y)
        lowest, highest = int(min(train.min(), test.min())), int(max(train.max(), test.max()))
        if lowest < 0:
            raise ValueError(f"OneHot needs labels that number the classes from 0, got {lowest}")
        classes = highest + 1 if self.classes is None else self.classes
        if highest >= classes:
            raise ValueError(f"OneHot 'classes' must exceed every label, got {classes} and the label {highest}")
        return train_x, one_hot(train, classes), test_x, one_hot(test, classes)
