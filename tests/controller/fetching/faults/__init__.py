"""Stories of Bundles whose fetches are killed, limited, cut off, or get bad content."""
