"""The portal's own settings with one address more: a view that says hello, below the same middleware."""

from portal.settings import *  # noqa: TID251

ROOT_URLCONF = "tests.bench.hello"
