"""``applyprune`` and ``python -m applyprune``: the command line, from its very first import on."""

import gc
import os

_NEW_CONTAINERS = 50_000
"""How many appear before Python looks for cycles among them; it looks after 700 by default."""


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it without a traceback."""
    # Manifests, live objects and plans live as long as a run and have no cycles: to look through
    # them again and again took a tenth of the CPU time of a thousand objects.
    gc.set_threshold(_NEW_CONTAINERS, 20, 50)
    try:
        from applyprune.cli.main import main as run  # noqa: PLC0415 -- it takes a tenth of a second
    except KeyboardInterrupt:
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
