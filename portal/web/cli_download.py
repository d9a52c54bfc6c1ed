"""Where this portal offers the command line that fits it.

`deploy.prepare` builds the package beside the static files; an installation that serves those from
elsewhere has none, and then nothing is offered.
"""

from pathlib import Path

from django.conf import settings
from django.http import HttpRequest

FOLDER = "cli"


def install_address(request: HttpRequest) -> str:
    """The address of the installable package, as this browser reaches it; empty when there is none."""
    wheels = sorted((Path(settings.STATIC_ROOT) / FOLDER).glob("*.whl"))
    if not wheels:
        return ""
    return request.build_absolute_uri(f"{settings.STATIC_URL}{FOLDER}/{wheels[-1].name}")
