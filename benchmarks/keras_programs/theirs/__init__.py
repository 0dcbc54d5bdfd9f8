"""The programs for Keras: `model` and `train(callbacks)`."""
