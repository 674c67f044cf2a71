"""The Python API: its names, its types, and what its calls do on a real API server."""
