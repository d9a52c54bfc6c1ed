"""What a test does where a program that it needs is not on this machine."""

import os
from typing import NoReturn

import pytest


def is_missing(why: str) -> NoReturn:
    """The test is left out; with CI set it fails: what proves the project must have all it needs.

    Args:
        why: names the program, and what to type.
    """
    if os.environ.get("CI"):
        pytest.fail(why)
    pytest.skip(why)
