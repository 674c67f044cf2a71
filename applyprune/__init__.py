"""applyprune makes a Kubernetes cluster match a set of YAML: apply, record, prune."""

from applyprune._version import __version__

__all__ = ["__version__"]
