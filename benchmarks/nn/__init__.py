"""Networks trained by this library, torch, JAX, Keras and scikit-learn, and the bound of what they multiply."""
