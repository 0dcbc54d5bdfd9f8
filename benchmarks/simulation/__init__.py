"""Networks of simulated nodes beside SimGrid's Python binding."""
