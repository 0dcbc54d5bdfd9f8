"""How soon a fault is seen and mended, over many runs, and what watching costs."""
