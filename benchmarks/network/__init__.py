"""Messages between two processes over loopback TCP, against plain sockets and torch gloo."""
