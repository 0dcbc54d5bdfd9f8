"""Encoding and decoding of the stages of codec pipelines, against the gates of shared/contracts/codecs.md."""
