"""`python -m rlzoo` is the `rlzoo` command."""

import sys

from rlzoo.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
