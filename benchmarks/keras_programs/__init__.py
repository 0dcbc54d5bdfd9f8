"""Fifteen programs in the manner of keras.io's, each as it is for Keras and as it is here, with a runner that compares them."""
