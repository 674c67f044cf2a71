"""Credentials: kubeconfig files, plugins, a pod's own account."""
