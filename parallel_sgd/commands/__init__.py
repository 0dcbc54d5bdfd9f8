"""What `psgd-submit` can do: submit a job, and look after jobs that were submitted before."""
