"""Texts: what names may be, how selectors are written, how foreign text is shown."""
