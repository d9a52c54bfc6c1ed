"""Where this portal offers the command line that fits it.

`deploy.prepare` builds the package beside the static files; an installation that serves those from
elsewhere has none, and then nothing is offered.
"""

from pathlib import Path

from django.conf import settings
from django.http import HttpRequest

from portal.version import VERSION

FOLDER = "cli"
# Another version's would be installed without a word by whoever follows the account page.
WHEEL = f"homeport_client-{VERSION}-py3-none-any.whl"


def install_address(request: HttpRequest) -> str:
    """The address of the installable package, as this browser reaches it; empty when there is none."""
    if not (Path(settings.STATIC_ROOT) / FOLDER / WHEEL).is_file():
        return ""
    return request.build_absolute_uri(f"{settings.STATIC_URL}{FOLDER}/{WHEEL}")
