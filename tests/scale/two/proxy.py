"""nginx and Caddy in front of several web servers, with what docs/cluster.md says that each needs."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from deploy.child import Child
from deploy.testcluster import binaries
from deploy.testcluster.ports import free_port
from tests.tools.servers import answers, find_program
from tests.tools.waiting import wait_for

CADDY = binaries.Product(
    "caddy",
    "caddy",
    "github.com/caddyserver/caddy/v2",
    {"caddy": "github.com/caddyserver/caddy/v2/cmd/caddy"},
)
_NGINX = """
daemon off;
worker_processes auto;
pid {folder}/nginx.pid;
error_log {folder}/nginx.log;
events {{ worker_connections 8192; }}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxied;
  map $http_upgrade $connection_upgrade {{ default upgrade; '' close; }}
  proxy_http_version 1.1;
  proxy_set_header Host $http_host;
  proxy_set_header X-Forwarded-For $remote_addr;
  proxy_set_header X-Forwarded-Proto $scheme;
  proxy_set_header Upgrade $http_upgrade;
  proxy_set_header Connection $connection_upgrade;
  proxy_request_buffering off;
  proxy_buffering off;
  proxy_read_timeout 1800s;
  proxy_send_timeout 1800s;
  client_max_body_size 0;
  {doors}
}}
"""
_NGINX_DOOR = """
  upstream {name} {{ zone {name} 64k; least_conn; {servers} }}
  server {{ listen 127.0.0.1:{port} backlog=1024; location / {{ proxy_pass http://{name}; }} }}
"""
_CADDY = """
{{
  admin 127.0.0.1:{admin}
  auto_https off
  persist_config off
}}
{doors}
"""
_CADDY_DOOR = """
http://:{port} {{
  bind 127.0.0.1
  reverse_proxy {servers} {{
    lb_policy least_conn
    lb_try_duration 5s
    stream_close_delay 30m
    transport http {{
      keepalive 2s
    }}
  }}
}}
"""


class Proxy:
    """One of the two, by name, with a port for people and one for pods.

    Raises:
        NoServerError: nginx is not installed.
        NoBinariesError: Caddy can not be built.
    """

    def __init__(self, name: str, folder: Path) -> None:
        self.port, self.pod_port, self._admin = free_port(), free_port(), free_port()
        self._folder, self._is_nginx = folder, name == "nginx"
        if self._is_nginx:
            program = find_program("nginx", "nginx-light", "/usr/sbin")
            self._config = folder / "nginx.conf"
            words = [program, "-c", str(self._config)]
            self._reload = [*words, "-s", "reload"]
        else:
            program = str(binaries.program(CADDY, "caddy"))
            self._config = folder / "Caddyfile"
            words = [program, "run", "--config", str(self._config)]
            self._reload = [program, "reload", "--config", str(self._config), "--force"]
        environ = {"HOME": str(folder), "PATH": "/usr/bin:/bin"}
        self.child = Child(name, words, environ, folder, log=folder / f"{name}.out")

    def lead_to(self, webs: Sequence[tuple[int, int]]) -> None:
        """Sends what comes from now on to these, each (PORT, POD_PORT); what goes on is left alone."""
        doors = ""
        for name, port, to in zip(
            ("people", "pods"), (self.port, self.pod_port), zip(*webs, strict=True), strict=True
        ):
            if self._is_nginx:
                servers = " ".join(f"server 127.0.0.1:{one} max_fails=0;" for one in to)
                doors += _NGINX_DOOR.format(name=name, port=port, servers=servers)
            else:
                servers = " ".join(f"127.0.0.1:{one}" for one in to)
                doors += _CADDY_DOOR.format(port=port, servers=servers)
        text = _NGINX if self._is_nginx else _CADDY
        self._config.write_text(text.format(folder=self._folder, doors=doors, admin=self._admin))
        if self.child.is_running:
            address = [] if self._is_nginx else ["--address", f"127.0.0.1:{self._admin}"]
            subprocess.run(
                [*self._reload, *address], check=True, capture_output=True, env=self.child.environ
            )
            return
        self.child.start()
        wait_for("the proxy listens", lambda: answers(self.port))
