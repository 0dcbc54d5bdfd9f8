"""The submitter of a job: it brings the job to its nodes, follows it there, and brings its files home."""
