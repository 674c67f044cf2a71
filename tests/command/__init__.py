"""The command line and the Python API: calls, processes, questions, formats."""
