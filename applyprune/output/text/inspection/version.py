"""The versions as text."""

from __future__ import annotations


def version_line(client: str, python: str, platform: str, server: str) -> str:
    """Return a line for this program, and one for the server if it has answered."""
    lines = [f"applyprune {client} (Python {python}, {platform})"]
    if server:
        lines.append(f"Kubernetes {server}")
    return "\n".join(lines)
