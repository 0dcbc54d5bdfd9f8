"""The programs for nn: `model` and `train(callbacks)`."""
