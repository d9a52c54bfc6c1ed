"""A real sshd for one test, which lets its own user in by one key."""

import getpass
import os
import shutil
import subprocess
from contextlib import closing
from pathlib import Path
from socket import create_connection, socket

from tests.tools.missing import is_missing
from tests.tools.waiting import wait_for


class SshServer:
    """Attributes:
    address: of a folder of this machine, `address + path`.
    known_hosts: by which it is known.
    """

    def __init__(self, folder: Path) -> None:
        program = shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            is_missing("there is no sshd; apt-get install openssh-server")
        if os.geteuid() == 0:
            os.makedirs("/run/sshd", mode=0o755, exist_ok=True)
        self.folder = folder
        folder.mkdir(mode=0o700)
        self.host_key, self.key = self.new_key("host"), self.new_key("ada")
        (folder / "allowed").write_text((folder / "ada.pub").read_text())
        with closing(socket()) as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        options = {
            "ListenAddress": f"127.0.0.1:{port}",
            "HostKey": self.folder / "host",
            "AuthorizedKeysFile": folder / "allowed",
            "StrictModes": "no",  # the folders above it are of a test
            "UsePAM": "no",
            "PidFile": "none",
            "PermitRootLogin": "prohibit-password",
        }
        words = [f"-o{name}={value}" for name, value in options.items()]
        log = (folder / "log").open("wb")
        self.process = subprocess.Popen([program, "-D", "-e", "-f/dev/null", *words], stderr=log)
        log.close()
        wait_for("sshd listens", lambda: _listens(port), timeout_s=10)
        self.address = f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
        public = (folder / "host.pub").read_text().rpartition(" ")[0]
        self.known_hosts = f"[127.0.0.1]:{port} {public}\n"

    def new_key(self, name: str) -> str:
        """A private key; its public part is in `NAME.pub`."""
        path = self.folder / name
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        return path.read_text()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def _listens(port: int) -> bool:
    try:
        create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True
