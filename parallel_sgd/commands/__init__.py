"""What `job_submit.py` can do, one command to a file."""
