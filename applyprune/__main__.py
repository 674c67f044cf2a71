"""``applyprune`` and ``python -m applyprune``: the command line, from its very first import on."""

import os


def main() -> None:
    """Run the command line; Ctrl-C while it is still being loaded ends it without a traceback."""
    try:
        from applyprune.cli.main import main as run  # noqa: PLC0415 -- it takes a tenth of a second
    except KeyboardInterrupt:
        os._exit(130)
    run()


if __name__ == "__main__":
    main()
