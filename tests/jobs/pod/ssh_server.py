"""A real sshd for one test, which lets its own user in by one key."""

import getpass
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from deploy.testcluster.ports import free_port
from tests.tools.missing import is_missing
from tests.tools.servers import NoServerError, answers, find_program, running


class SshServer:
    """Attributes:
    address: of a folder of this machine, `address + path`.
    known_hosts: by which it is known.
    """

    def __init__(self, folder: Path) -> None:
        try:
            self._program = find_program("sshd", "openssh-server", "/usr/sbin")
        except NoServerError as error:
            is_missing(str(error))
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.new_key("host")
        self.key = self.new_key("ada")
        (folder / "allowed").write_text((folder / "ada.pub").read_text())
        self.port = free_port()
        self.address = f"ssh://{getpass.getuser()}@127.0.0.1:{self.port}"
        public = (folder / "host.pub").read_text().rpartition(" ")[0]
        self.known_hosts = f"[127.0.0.1]:{self.port} {public}\n"

    @contextmanager
    def running(self) -> Iterator[None]:
        """It lets its user in while the context is open."""
        options = {
            "ListenAddress": f"127.0.0.1:{self.port}",
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": self.folder / "allowed",
            "StrictModes": "no",  # the folders above it are of a test
            "UsePAM": "no",
            "PidFile": "none",
            "PermitRootLogin": "prohibit-password",
        }
        words = [f"-o{name}={value}" for name, value in options.items()]
        command = [self._program, "-D", "-e", "-f/dev/null", *words]
        with running(command, self.folder / "log", lambda: answers(self.port)):
            yield

    def new_key(self, name: str) -> str:
        """A private key; its public part is in `NAME.pub`."""
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        return path.read_text()
