"""Files with secrets, for what reads nothing but a path: in memory only, where the system can."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


@contextmanager
def memory_file(content: bytes) -> Iterator[tuple[Path, Sequence[int]]]:
    """Yield the path of a file that other users cannot read, and what a child must inherit for it.

    No disk that is full or read-only is in its way. Without ``memfd_create``, as on macOS, it is a
    temporary file of this user; raises OSError if that cannot be written.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("applyprune"), "wb") as file:
            file.write(content)
            file.flush()
            yield Path(f"/proc/self/fd/{file.fileno()}"), (file.fileno(),)
        return
    with tempfile.NamedTemporaryFile(prefix="applyprune-") as file:
        file.write(content)
        file.flush()
        yield Path(file.name), ()
