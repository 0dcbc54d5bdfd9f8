"""The record of a run: signatures, and the samples that a run keeps."""
