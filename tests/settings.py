"""Settings of the test run: those of the portal, in a HOMEPORT_HOME of their own."""

import atexit
import os
import shutil
import tempfile

_home = tempfile.mkdtemp(prefix="homeport-tests-")
_made_by = os.getpid()
os.mkdir(f"{_home}/static")  # whitenoise warns when there is nothing collected
os.environ["HOMEPORT_HOME"] = _home
_SERVERS = ("DATABASE_URL", "REDIS_URL", "S3_BUCKET", "S3_ENDPOINT", "S3_REGION")
_MINE = () if os.environ.get("TESTS_WITH_SERVERS") else _SERVERS
for _name in (
    *_MINE,
    "HOMEPORT_KUBECONFIG",
    "PURGE_KUBECONFIG",
    "WEB_KUBECONFIG",
    "POD_PORTAL_URL",
    "PUBLIC_URL",
    "ALLOWED_HOSTS",
    "HTTPS",
    "LISTEN",
):
    os.environ.pop(_name, None)
os.environ["POD_PORTAL_URL"] = "http://10.244.0.1:8000"  # no cluster is asked whether it is so
# Pods that no test asked for would be in the way of those that it counts, also in what it starts.
os.environ.setdefault("NETWORK_CHECK", "no")
# One person does here what many would.
os.environ.setdefault("SUBMITS_PER_MINUTE", "1000000")
os.environ.setdefault("MAX_QUEUED", "1000000")


def _remove() -> None:
    # A forked child must not take its parent's home with it.
    if os.getpid() == _made_by:
        shutil.rmtree(_home, ignore_errors=True)


atexit.register(_remove)

from portal.settings import *  # noqa: TID251
from portal.settings import CHANNEL_LAYERS, STORAGES  # noqa: TID251

PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Processes of tests beside this one have the same Redis.
_worker = os.environ.get("PYTEST_XDIST_WORKER")
if _worker and "hosts" in CHANNEL_LAYERS["default"].get("CONFIG", {}):
    CHANNEL_LAYERS["default"]["CONFIG"]["prefix"] = f"tests-{_worker}"
# Pages are rendered without collected static files.
STORAGES = {
    **STORAGES,
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}
