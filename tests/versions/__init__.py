"""The control plane of other versions of Kubernetes, and the end-to-end stories on each."""
