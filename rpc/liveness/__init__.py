"""Who is alive, who makes progress, and what is said of those who do not: recorder, detectors and monitors."""
