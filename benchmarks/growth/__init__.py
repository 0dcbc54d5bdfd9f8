"""How a job grows with its workers and with its parameters: times, processor time, memory, packets, with fitted exponents."""
