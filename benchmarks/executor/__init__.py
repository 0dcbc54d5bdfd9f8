"""Tasks per second and megabytes per second of ClusterExecutor, side by side with its peers."""
