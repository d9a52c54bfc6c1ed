"""`manage.py serve`, with the fault that HOMEPORT_FAULT says: python -m tests.faults.serve [OPTIONS]"""

import os
import sys

from django.core.management import execute_from_command_line

from portal.cluster import client
from tests.faults import fault


def main() -> None:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    if os.environ.get("HOMEPORT_FAULT"):
        client.fault = fault.parse(os.environ["HOMEPORT_FAULT"])
    execute_from_command_line(["manage.py", "serve", *sys.argv[1:]])


if __name__ == "__main__":
    main()
