"""`python -m rlzoo` is the `rlzoo` command."""

import sys


def run() -> int:
    """Run the command line; Ctrl-C while it is still being imported is one line, too."""
    try:
        from rlzoo.cli.main import main
    except KeyboardInterrupt:
        print("rlzoo: interrupted", file=sys.stderr)
        return 130
    return main()


if __name__ == "__main__":
    sys.exit(run())
