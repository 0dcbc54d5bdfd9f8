"""Jobs in bad weather, for as long as one likes; not part of the suite: `make soak`."""
