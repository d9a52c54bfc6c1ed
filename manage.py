#!/usr/bin/env python
"""Django's command line for Homeport."""

import os
import sys

from django.core.management import execute_from_command_line

from portal.errors import ConfigurationError

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    os.umask(0o077)  # what is made here is nobody else's: databases, keys, logs of people
    try:
        execute_from_command_line(sys.argv)
    except ConfigurationError as error:
        sys.exit(f"Homeport did not start: {error}")
