"""docs/from-keras.md: every name of nn in it exists, and what at least two public programs use stands in it."""

from __future__ import annotations

import re
from functools import reduce

import nn
from tests.sources import ROOT

PAGE = (ROOT / "docs" / "from-keras.md").read_text("utf-8")
USED = frozenset(
    re.findall(
        r"\w+",
        """
        Activation Adam AdamW AUC AveragePooling2D BatchNormalization Bidirectional CenterCrop Concatenate
        Conv1D Conv2D Conv2DTranspose Dense Dropout EarlyStopping Embedding Flatten GRU GlobalAveragePooling1D
        GlobalAveragePooling2D GlobalMaxPooling1D GlobalMaxPooling2D GlorotNormal GradientTape HeNormal Input L1
        L2 LSTM Lambda LayerNormalization LeakyReLU LearningRateScheduler MaxPooling1D MaxPooling2D Mean
        MeanAbsoluteError ModelCheckpoint MultiHeadAttention Multiply Nadam Normalization Precision RMSprop
        RandomFlip RandomRotation RandomZoom ReLU Recall RepeatVector Rescaling Reshape Resizing SGD
        SeparableConv2D SimpleRNN Softmax TensorBoard TextVectorization TimeDistributed UpSampling2D
        ZeroPadding2D adapt add_loss clone_model compute_loss compute_mask dilation_rate export get_layer
        image_dataset_from_directory initial_state kernel_constraint kernel_regularizer load_weights
        loss_weights mask_zero pad_sequences recurrent_dropout return_state text_dataset_from_directory
        timeseries_dataset_from_array train_on_batch train_step trainable
        """,
    )
)
"""Names that at least two of 147 public programs of Keras use."""


def names_here() -> list[str]:
    return re.findall(r"`(nn\.[\w.]+)`", PAGE)


def test_every_name_on_the_page_exists() -> None:
    for name in names_here():
        reduce(getattr, name.split(".")[1:], nn)


def test_the_page_has_what_programs_use() -> None:
    told = set(re.findall(r"`(\w+)=?`", PAGE))
    assert not sorted(USED - told)
    assert len(set(names_here())) > 120
