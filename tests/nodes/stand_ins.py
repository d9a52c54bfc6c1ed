"""Stands in for the official images of PostgreSQL and Redis on nodes that reach no registry.

The programs are this machine's own, of Debian's packages; variables, paths and user ids are those of the
images (https://hub.docker.com/_/postgres, https://hub.docker.com/_/redis). What else they do is not tried.
"""

import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from deploy.testcluster.nodes.images import Image, debian, pack, write
from tests.tools import servers

POSTGRES = "docker.io/library/postgres:17"
REDIS = "docker.io/library/redis:7.4"
NGINX = "registry.example/nginx:1"
_USER = "999"
_ENTRYPOINT = """#!/bin/sh
set -eu
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  printf '%s' "$POSTGRES_PASSWORD" > /tmp/password
  initdb --username="$POSTGRES_USER" --pwfile=/tmp/password --auth-local=trust --auth-host=scram-sha-256 \\
    --encoding=UTF8 --locale=C.UTF-8 --pgdata="$PGDATA"
  rm /tmp/password
  echo 'host all all all scram-sha-256' >> "$PGDATA/pg_hba.conf"
  echo "CREATE DATABASE $POSTGRES_DB" | postgres --single -D "$PGDATA" template1
fi
exec postgres -D "$PGDATA" -c 'listen_addresses=*'
"""


def archive(folder: Path) -> Path:
    """Both images in one file that a node imports."""
    root = folder / "servers"
    programs = Path(servers.postgres_program("postgres")).resolve().parent
    redis = Path(servers.find_program("redis-server", "redis-server")).resolve()
    for tree in (programs, programs.parent / "lib", Path("/usr/share/postgresql"), _zones()):
        shutil.copytree(tree, root / tree.relative_to("/"), symlinks=False, dirs_exist_ok=True)
    (root / "usr/bin").mkdir(exist_ok=True)
    shutil.copy2(redis, root / "usr/bin/redis-server")
    _add_libraries(root, [*programs.iterdir(), redis])
    (root / "etc").mkdir()
    (root / "etc/passwd").write_text(
        f"root:x:0:0::/root:/bin/sh\npostgres:x:{_USER}:{_USER}::/var/lib/postgresql:/bin/sh\n"
    )
    entrypoint = root / "usr/local/bin/docker-entrypoint.sh"
    entrypoint.parent.mkdir(parents=True)
    entrypoint.write_text(_ENTRYPOINT)
    entrypoint.chmod(0o755)
    layers = [debian(), pack(root, folder / "servers.layer")]
    path = f"PATH=/usr/local/bin:/usr/bin:/bin:{programs}"
    started_by = {"Env": [path], "Entrypoint": ["docker-entrypoint.sh"], "User": _USER}
    return write(
        folder / "servers.tar",
        [Image(POSTGRES, layers, started_by), Image(REDIS, layers, {"Env": [path], "User": _USER})],
    )


def nginx(folder: Path) -> Path:
    """Debian's, in an archive of its own: `NGINX`, which is told its configuration."""
    root = folder / "nginx"
    for place in ("usr/sbin", "var/log/nginx", "var/lib/nginx"):
        (root / place).mkdir(parents=True)
        (root / place).chmod(0o777)
    program = Path(servers.find_program("nginx", "nginx-light", "/usr/sbin"))
    shutil.copy2(program, root / "usr/sbin/nginx")
    _add_libraries(root, [program])
    layers = [debian(), pack(root, folder / "nginx.layer")]
    return write(folder / "nginx.tar", [Image(NGINX, layers, {"Entrypoint": ["/usr/sbin/nginx"]})])


def _add_libraries(root: Path, programs: Iterable[Path]) -> None:
    for library in _libraries(programs):
        target = root / library.relative_to("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, target)


def _zones() -> Path:
    return Path("/usr/share/zoneinfo")


def _libraries(programs: Iterable[Path]) -> set[Path]:
    """What they are linked to, where Debian's loader looks for it."""
    found = set()
    for program in programs:
        said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
        found |= {Path(path) for path in re.findall(r"=> (/\S+)", said)}
    return {
        Path("/usr") / path.relative_to("/") if path.parts[1] == "lib" else path for path in found
    }
