"""Stop with a clear message where Python is too old; written so that any Python 3 can read it."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036
    version = ".".join(str(part) for part in sys.version_info[:3])
    sys.exit("This book needs Python 3.11, 3.12 or 3.13; this is %s. Try: make PYTHON=python3.11" % version)  # noqa: UP031
