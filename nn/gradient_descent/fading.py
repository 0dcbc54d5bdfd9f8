"""Running means that fade out must become 0 before they become denormal, on which CPUs are fifty times slower."""

import numpy as np

from nn.arrays import Array

FADE_CHECK = 128
"""Steps between two looks; at a decay of 0.9 a number of 1e-30 needs 175 steps to become denormal in float32."""

FADED = 1e-30
"""Means below this move no parameter: with the usual epsilon by at most 1e-22 learning rates."""


def forget_faded(step: int, *slots: Array) -> None:
    """Every so many steps, set to 0 what is too small to matter, as happens where gradients stay 0."""
    if step % FADE_CHECK == 0:
        for slot in slots:
            slot[np.abs(slot) < FADED] = 0


def forget_faded_squares(step: int, decay: float, *slots: Array) -> None:
    """Every so many steps, set to 0 those running means of squares that would be denormal before the next look.

    A root is taken of them, so they matter for longer than other means: what is forgotten here has a root of 1e-15 at most, at
    a decay of 0.999 of 1e-19, and changes no bit of a sum with the usual epsilon.
    """
    if step % FADE_CHECK == 0:
        for slot in slots:
            tiny = float(np.finfo(slot.dtype).tiny)
            slot[slot < tiny / max(decay**FADE_CHECK, tiny / FADED)] = 0
