"""One Bundle as text: everything about it, and the plan that waits for an approval."""

from __future__ import annotations

from applyprune.model.events import Event
from applyprune.model.reports.bundle import BundleStatus
from applyprune.output.printers import OutputTarget
from applyprune.output.text.inspection.bundle_lines import bundle_details
from applyprune.output.text.printer import TextPrinter


class BundlePrinter:
    """Writes the details of a Bundle, and everything else as every verb does."""

    def __init__(self, target: OutputTarget) -> None:
        """Take the output."""
        self._target = target
        self._text = TextPrinter(target)

    def show(self, event: Event) -> None:
        """Write one event."""
        if isinstance(event, BundleStatus):
            width = None if self._target.redraw is None else self._target.width
            self._target.out(bundle_details(event, width))
        else:
            self._text.show(event)

    def close(self) -> None:
        """Close the text printer."""
        self._text.close()
