"""Who drives a job: the submitter first; when it is gone, the senior node that is left."""
