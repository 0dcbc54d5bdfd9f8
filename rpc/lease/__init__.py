"""Who may drive a job: what each of its nodes has promised, and how a driver comes by the promises of a majority."""
