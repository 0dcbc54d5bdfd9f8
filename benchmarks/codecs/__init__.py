"""Encoding and decoding of the stages of codec pipelines."""
