"""What stands in for GitHub in tests: the runner of a job, and the part of the REST API it uses."""
