"""What applyprune says and does, beside what real Pods do."""
