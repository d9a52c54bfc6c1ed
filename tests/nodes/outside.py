"""PostgreSQL, Redis and an S3 server beside the cluster, at this machine's address, as a site has its own.

All speak TLS under an authority of their own, and the first two ask for a password.
"""

import os
import pwd
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import psycopg

from deploy.testcluster.nodes import network
from deploy.testcluster.ports import free_port
from tests.tools import servers
from tests.tools.authority import Authority

PASSWORD = "of-these-servers"


@dataclass(frozen=True)
class Outside:
    """Attributes: `secrets` leads to them, `bucket` too; `authority` signed their certificates (PEM)."""

    secrets: dict[str, str]
    bucket: dict[str, str]
    authority: str

    def port(self, name: str) -> int:
        return urlsplit((self.secrets | self.bucket)[name]).port or 0


@contextmanager
def outside() -> Iterator[Outside]:
    """They run while the context is open; the network of the nodes has to be there."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.chmod(0o755)  # PostgreSQL runs as nobody
        authority = Authority(folder / "authority")
        certificate, key = authority.pair("servers")
        key.chmod(0o600)
        nobody = pwd.getpwnam("nobody")
        os.chown(key, nobody.pw_uid, nobody.pw_gid)
        postgres = _postgres(stack, folder / "postgres", certificate, key)
        redis = free_port()
        command = [servers.find_program("redis-server", "redis-server"), "--port", "0"]
        command += ["--bind", network.HOST, "--tls-port", str(redis), "--requirepass", PASSWORD]
        command += ["--tls-cert-file", str(certificate), "--tls-key-file", str(key)]
        command += ["--tls-ca-cert-file", str(folder / "authority/ca.crt")]
        command += ["--tls-auth-clients", "no", "--save", "", "--dir", str(folder)]
        stack.enter_context(
            servers.running(
                command, folder / "redis.log", lambda: servers.answers(redis, network.HOST)
            )
        )
        s3 = stack.enter_context(servers.s3(folder / "s3", network.HOST, (certificate, key)))
        bucket = {name: s3.pop(name) for name in ("S3_BUCKET", "S3_ENDPOINT", "S3_REGION")}
        where = f"{network.HOST}:{postgres.port}/homeport?sslmode=verify-full"
        urls = {
            "DATABASE_URL": f"postgres://homeport:{PASSWORD}@{where}",
            "REDIS_URL": f"rediss://:{PASSWORD}@{network.HOST}:{redis}/0",
        }
        yield Outside(urls | s3, bucket, authority.pem.decode())


def _postgres(stack: ExitStack, folder: Path, certificate: Path, key: Path) -> servers.Postgres:
    made, _ = stack.enter_context(
        servers.running_postgres(
            folder,
            listen_addresses=f"127.0.0.1,{network.HOST}",
            ssl="on",
            ssl_cert_file=certificate,
            ssl_key_file=key,
        )
    )
    with (made.data / "pg_hba.conf").open("a") as file:
        file.write("hostssl all all all scram-sha-256\n")
    with psycopg.connect(made.url, autocommit=True) as connection:
        connection.execute(f"ALTER ROLE homeport PASSWORD '{PASSWORD}'")
        connection.execute("SELECT pg_reload_conf()")
    return made
