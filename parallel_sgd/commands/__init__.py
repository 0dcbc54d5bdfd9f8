"""Commands of `psgd submit`: submit a job, and look after jobs that were submitted before."""
