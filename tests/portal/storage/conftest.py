"""A store on a real S3 server."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from portal.storage.s3 import S3Store
from tests.tools import servers
from tests.tools.missing import is_missing


@pytest.fixture
def s3_store(request: pytest.FixtureRequest) -> S3Store:
    """For tests that are marked `s3`: no other lane builds the server."""
    assert request.node.get_closest_marker("s3"), "not marked s3, so its lane has no S3 server"
    found: S3Store = request.getfixturevalue("s3_server")
    return found


@pytest.fixture(scope="package")
def s3_server() -> Iterator[S3Store]:
    folder = Path(tempfile.mkdtemp(prefix="homeport-s3-"))
    try:
        with servers.s3(folder / "s3") as names, pytest.MonkeyPatch.context() as patch:
            for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
                patch.setenv(name, names[name])
            other = names["S3_ENDPOINT"].replace("127.0.0.1", "localhost")
            yield S3Store(names["S3_BUCKET"], names["S3_ENDPOINT"], names["S3_REGION"], other)
    except servers.NoServerError as error:
        is_missing(str(error))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
