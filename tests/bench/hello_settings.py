"""The portal's own settings with one address, a view that says hello; served as Django runs it (`hello.py`)."""

from portal.settings import *  # noqa: TID251

ROOT_URLCONF = "tests.bench.hello"
USE_I18N = True
