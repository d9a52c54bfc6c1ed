"""`python -m tests.recorded`: writes the files anew; look at the difference before it is committed."""

import os
import sys

import pytest

from tests.recorded import WRITE

if __name__ == "__main__":
    os.environ[WRITE] = "1"
    sys.exit(pytest.main(["-q", "-p", "no:cacheprovider", "tests/recorded", *sys.argv[1:]]))
