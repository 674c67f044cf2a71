"""Input of a Bundle that is small to send, and costs much to judge."""

MEGABYTE = 900_000


def doubling(text: str) -> str:
    """Return a rule in CEL that doubles a text of the object again and again."""
    rule = f"[{text}]{'.map(a, a + a)' * 13}.exists(a, a == '')"
    assert len(rule) < 231
    return rule
