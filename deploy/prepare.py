"""Readies the database and the static files before the portal starts: `python -m deploy.prepare`.

One process for all of it, since importing Django takes longer than the work. With `--demo` it also
makes the demo accounts on an empty database and prints them.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import django
from django.conf import settings
from django.contrib.staticfiles.finders import get_finders
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connection

from portal import insecure
from portal.database import schema
from portal.version import VERSION
from portal.web import cli_download

COMMAND_LINE = Path(__file__).parents[1] / "jobs" / "client"
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
    folder = Path(settings.STATIC_ROOT) / cli_download.FOLDER
    for old in folder.glob("*.whl"):
        old.unlink()
    folder.mkdir(parents=True, exist_ok=True)
    return build_command_line(folder, VERSION)


def build_command_line(folder: Path, version: str) -> Path:
    """Writes the package of the command line, with this version, into a folder; its file."""
    # uv has the build backend inside, so that no index is asked.
    command = [sys.executable, "-m", "uv", "build", "--wheel", "--python", sys.executable]
    quietly = ["--offline", "--no-cache", "--no-config", "--no-create-gitignore", "--quiet"]
    # Homeport needs no other folder that it may write to than its own.
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        source = Path(temporary) / "client"
        shutil.copytree(COMMAND_LINE, source, ignore=shutil.ignore_patterns("__pycache__"))
        project = source / "pyproject.toml"
        stated = f'version = "{version}"'
        project.write_text(re.sub(r"(?m)^version = .*$", stated, project.read_text(), count=1))
        subprocess.run(
            [*command, *quietly, "--out-dir", folder, source],
            check=True,
            env={**os.environ, "TMPDIR": temporary},
        )
    return folder / f"homeport_client-{version}-py3-none-any.whl"


def bring_database() -> str:
    """Migrates what has a copy to go back to, or nothing to lose; why it did not, or empty."""
    try:
        found = schema.look()
        if refusal := found.why_not_migrate():
            return refusal
        if found.missing and found.has_tables and connection.vendor != "sqlite":
            newest = schema.shown([found.newest]) if found.newest else "now"
            return (
                f"the database lacks the migration {schema.shown(found.missing)}, and a database "
                "of yours is not changed unasked. Keep a copy of it, then migrate it, with\n\n"
                f'  pg_dump --format=custom --file=homeport-{newest}.dump "$DATABASE_URL"\n'
                f"  {sys.executable} manage.py migrate\n\nand start again."
            )
        # What is said goes where people see it: the launcher keeps the standard output.
        is_news = found.missing and found.has_tables
        call_command("migrate", interactive=False, verbosity=1 if is_news else 0, stdout=sys.stderr)
    except (CommandError, DatabaseError) as error:
        return str(error)
    return ""


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m deploy.prepare", description=__doc__)
    parser.add_argument("--demo", action="store_true", help="make and print the demo accounts")
    parser.add_argument(
        "--static-only", action="store_true", help="no database: what an image of Homeport carries"
    )
    options = parser.parse_args(arguments)
    if not options.static_only:
        os.umask(0o077)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings")
    django.setup()
    if options.static_only:
        collect_static()
        offer_command_line()
        return 0
    if why := insecure.refusal():
        sys.stderr.write(f"Homeport does not start: {why}\n")
        return 1
    if problem := bring_database():
        sys.stderr.write(f"The database cannot be used: {problem}\n")
        return 1
    collect_static()
    offer_command_line()
    if options.demo:
        call_command("demo")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
