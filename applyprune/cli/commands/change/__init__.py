"""Commands that change the cluster."""
