"""``pattern`` is ``re.compile``, done when the pattern is first used.

The package has 170 patterns. Most are for messages of the server that a run never sees, and to
compile them costs a start 10 ms.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

__all__ = ["pattern"]

if TYPE_CHECKING:
    from re import compile as pattern
else:

    class pattern:  # noqa: N801 - it stands for a function
        """A compiled regular expression, once it is asked for something."""

        def __init__(self, text, flags=0):
            self._described = text, flags

        def __getattr__(self, name):
            """Return what the compiled pattern has, and keep it: this is called once a name."""
            value = getattr(re.compile(*self._described), name)
            setattr(self, name, value)
            return value
