"""The terminal: streams, colors, columns, the live display."""
