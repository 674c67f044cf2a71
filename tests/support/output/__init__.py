"""One stream of every event, and what the formats make of it."""
