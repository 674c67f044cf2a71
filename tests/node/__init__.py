"""A cluster of two real nodes: ``make node`` builds it, and runs the tests of this folder on it.

Containerd, kubelets, kube-proxy and a control plane run in a network of their own. Nothing comes
from an image registry: the images are made of Debian's packages and of this checkout.
"""
