"""The signals that ask a program to stop."""

from __future__ import annotations

import signal
import sys

if sys.platform == "win32":
    # Ctrl-Break is all that one program can send to another one there.
    STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
else:
    STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
