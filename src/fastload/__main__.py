"""`python -m fastload`: the command `fastload`."""

import sys

from fastload.tools.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
