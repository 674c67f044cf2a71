"""The name of the user who runs this process."""

from __future__ import annotations

import getpass
import os
import sys

if sys.platform == "win32":

    def _number() -> str:
        return "?"

else:

    def _number() -> str:
        return str(os.getuid())


def user_name() -> str:
    """Return it; where the system knows none, the user's number, or a question mark."""
    try:
        return getpass.getuser()
    # A container's user without a name; and Windows without USERNAME has no database to look in.
    except (ImportError, KeyError, OSError):
        return _number()
