"""Training of multi-layer perceptrons against torch and scikit-learn."""
