"""The YAML dialect of Kubernetes: documents, scalars, positions."""
