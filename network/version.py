"""The version of Parallel-SGD, in one place: packaging, handshakes and log lines read it here."""

VERSION = "1.0.0"
