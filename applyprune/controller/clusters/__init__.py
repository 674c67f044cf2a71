"""Other clusters, to which the kubeconfigs of Bundles lead."""
