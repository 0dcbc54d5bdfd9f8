"""Small language models: tokens per second in training and sampling, beside torch."""
