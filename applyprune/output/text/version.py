"""Versions, as a person reads them."""

from __future__ import annotations


def version_line(client: str, python: str, platform: str, server: str) -> str:
    """Return a line for what runs here, and one for the server where it has answered."""
    lines = [f"applyprune {client} (Python {python}, {platform})"]
    if server:
        lines.append(f"Kubernetes {server}")
    return "\n".join(lines)
