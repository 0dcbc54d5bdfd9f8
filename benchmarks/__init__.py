"""Side by side with peers, as ratios in one run. `python -m benchmarks` runs all, `python -m benchmarks.nn` one part."""
