"""Commands about applyprune itself."""
