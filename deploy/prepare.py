"""Readies the database and the static files before the portal starts: `python -m deploy.prepare`.

One process for all of it, since importing Django takes longer than the work. With `--demo` it also
makes the demo accounts on an empty database and prints them.
"""

import argparse
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import django
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import call_command

from portal import command_line

WHEEL_BUILDER = Path(__file__).parents[1] / "jobs" / "client" / "packaging" / "homeport_wheel.py"
# htmx's extensions are not used, and some import names that only a bundler could resolve.
_NOT_COLLECTED = ["django_htmx/ext/*"]


def static_fingerprint() -> str:
    """Changes when a static file, the way they are stored, or Django's version changes."""
    digest = hashlib.sha256(f"{django.__version__} {settings.STORAGES['staticfiles']}".encode())
    for finder in get_finders():
        for name, storage in finder.list(_NOT_COLLECTED):
            status = Path(storage.path(name)).stat()
            digest.update(f"{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def collect_static() -> bool:
    """Collects into STATIC_ROOT unless it holds exactly these files; whether it did."""
    mark = Path(settings.STATIC_ROOT) / ".collected"
    wanted = static_fingerprint()
    if mark.is_file() and mark.read_text() == wanted:
        return False
    call_command(
        "collectstatic",
        interactive=False,
        clear=True,
        verbosity=0,
        ignore_patterns=_NOT_COLLECTED,
    )
    mark.write_text(wanted)
    return True


def offer_command_line() -> Path:
    """Puts the installable command line beside the static files, so that it fits this portal."""
    folder = Path(settings.STATIC_ROOT) / command_line.FOLDER
    for old in folder.glob("*.whl"):
        old.unlink()
    # A program of its own: nothing imports the command line.
    subprocess.run([sys.executable, str(WHEEL_BUILDER), str(folder)], check=True)
    return next(folder.glob("*.whl"))


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.prepare", description=__doc__)
    parser.add_argument("--demo", action="store_true", help="make and print the demo accounts")
    options = parser.parse_args(arguments)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    call_command("migrate", interactive=False, verbosity=0)
    collect_static()
    offer_command_line()
    if options.demo:
        call_command("demo")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
