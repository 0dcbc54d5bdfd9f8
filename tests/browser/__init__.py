"""The pages in a real Chromium: `make browser`."""
