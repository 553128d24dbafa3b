"""``python -m hami_operator`` is the command ``hami-operator``."""

import sys

from hami_operator.cli import main

if __name__ == "__main__":
    sys.exit(main.main())
