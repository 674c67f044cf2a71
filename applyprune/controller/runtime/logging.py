"""The controller's log: JSON lines with constant messages; all details are in fields."""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime

LOG = logging.getLogger("applyprune.controller")


class JsonLines(logging.Formatter):
    """Formats a record as one JSON object: time, level, message and the fields of ``extra``."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "message": record.getMessage(),
        }
        line |= getattr(record, "fields", {})
        if record.exc_info:
            # Without the error's message: it may quote a Secret.
            kind, _, frames = record.exc_info
            line["error"] = kind.__name__ if kind is not None else ""
            line["traceback"] = "".join(traceback.format_tb(frames))
        return json.dumps(line, ensure_ascii=False, default=str)


def log_to_stderr(level: str) -> None:
    """Send the log to standard error, from ``level`` up."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    LOG.handlers[:] = [handler]
    LOG.setLevel(level.upper())
    LOG.propagate = False


def fields(**values: object) -> dict[str, dict[str, object]]:
    """Return the ``extra`` argument of a logging call; empty values are left out."""
    return {"fields": {key: value for key, value in values.items() if value or value == 0}}
