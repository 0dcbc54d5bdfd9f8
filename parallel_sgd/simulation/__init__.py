"""Jobs on simulated nodes: the same codecs, exchange and results as on real ones, with time from a virtual clock."""
