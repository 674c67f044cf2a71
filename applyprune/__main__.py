"""``applyprune`` and ``python -m applyprune``: the command line, from its very first import on."""

import gc
import os

_NEW_CONTAINERS = 100_000
"""How many appear before Python looks for cycles among them; it looks after 700 by default.

A command for ten objects makes half as many.
"""


def main() -> None:
    """Run the command line; a Ctrl-C before it or after it ends the process without a traceback."""
    # Manifests, live objects and plans live as long as a run and have no cycles: to look through
    # them again and again took a tenth of the CPU time of a thousand objects.
    gc.set_threshold(_NEW_CONTAINERS, 20, 50)
    try:
        from applyprune.cli.main import main as run  # noqa: PLC0415 -- it takes a tenth of a second

        run()
    except KeyboardInterrupt:
        os._exit(130)
    finally:
        # At the end Python looks for cycles in everything that was imported, several times: 40 ms,
        # a sixth of a command for ten objects. The process ends, and all files are closed by then.
        gc.freeze()


def complete_plugin() -> None:
    """Run ``kubectl_complete-applyprune``, which kubectl asks when TAB is pressed."""
    from applyprune.cli.complete import complete_plugin as complete  # noqa: PLC0415

    complete()


if __name__ == "__main__":
    main()
