"""Routes that exist only where a setting asks for them are in the table too."""

import json
from pathlib import Path

from tests.portal.programs import program
from tests.portal.routes.table import BY_SETTING, TABLE

# Anything but the right method: those need no provider.
CODE = """
import django, json
django.setup()
from django.test import Client
from tests.portal.programs import program
from tests.portal.routes.table import METHODS
from tests.portal.routes.walk import routes
client = Client(HTTP_HOST="localhost")
found = {route.key: route.path for route in routes()}
names = {"oidc-begin", "oidc-callback"} & found.keys()
ways = {"oidc-begin": {"POST"}, "oidc-callback": {"GET", "HEAD"}}
answers = {
    name: sorted({client.generic(m, "/" + found[name]).status_code for m in METHODS if m not in ways[name]})
    for name in names
}
print(json.dumps({"names": sorted(found), "answers": answers}))
"""


def test_with_a_provider_the_routes_of_signing_in_by_it_are_sorted_too(tmp_path: Path) -> None:
    provider = {
        "OIDC_ISSUER": "http://localhost:1",
        "OIDC_CLIENT_ID": "portal",
        "OIDC_CLIENT_SECRET": "none",
    }
    done = program(tmp_path, "-W", "ignore", "-c", CODE, **provider)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert set(found["names"]) == TABLE.keys()
    assert found["answers"] == {name: [405] for name in BY_SETTING}
