"""The controller of the guide's installation, beside what its real Pods do."""
