"""``python -m applyprune``: the command line, where its script is not on the PATH."""

from applyprune.cli.main import main

if __name__ == "__main__":
    main()
