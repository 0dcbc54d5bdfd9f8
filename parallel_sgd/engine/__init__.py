"""Engine of a job: training on one node, the exchange of blocks, channels, and the accounts of sent packets."""
