"""What the environment says: the values of the settings, and what follows from them.

`portal/settings.py` reads them here; `table` has every setting there is.
"""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from portal.environment.table import SETTINGS
from portal.errors import ConfigurationError

_BY_NAME = {setting.name: setting for setting in SETTINGS}


def read(name: str) -> Any:
    """The parsed value of one variable, or of its default.

    Raises:
        ConfigurationError: the variable holds what its parser refuses; the text names the variable.
    """
    setting = _BY_NAME[name]
    text = os.environ.get(name, setting.default)
    try:
        return setting.parse(text)
    except ValueError as error:
        raise ConfigurationError(f"{name}={text!r}: {error}") from error


def pod_port() -> int:
    """POD_PORT, or the number after PORT.

    Raises:
        ConfigurationError: it is PORT itself: which door a request came by is known by the port.
    """
    port: int = read("PORT")
    given: int | None = read("POD_PORT")
    if given == port:
        raise ConfigurationError(
            f"POD_PORT={given} is PORT too, but pods have a door of their own; set another one, "
            f"for example POD_PORT={port + 1}"
        )
    return port + 1 if given is None else given


def home() -> Path:
    """HOMEPORT_HOME as an absolute path; made (0700) when missing."""
    path = Path(read("HOMEPORT_HOME")).resolve()
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    return path


def is_in_pod() -> bool:
    """Whether Kubernetes started this process."""
    return bool(os.environ.get("KUBERNETES_SERVICE_HOST"))


def secret_key(make: Callable[[], str]) -> str:
    """HOMEPORT_SECRET_KEY, or the one that HOMEPORT_HOME keeps.

    Args:
        make: one for an installation that has none yet.

    Raises:
        ConfigurationError: a pod has none: one of its own would go with it, and no other pod would know it.
    """
    path = home() / "secret_key"
    given: str = read("HOMEPORT_SECRET_KEY")
    if not given and is_in_pod() and not path.exists():
        raise ConfigurationError(
            "HOMEPORT_SECRET_KEY is empty, and in a pod none is generated; set it to at least 50 random "
            "characters, the same for all pods (docs/cluster.md)"
        )
    return given or secret_file(path, make)


def secret_file(path: Path, make: Callable[[], str]) -> str:
    """The text of a secret kept in a file of mode 0600, made at first use.

    Two processes that start together agree: the file is created exclusively.
    """
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_text().strip()
    with os.fdopen(handle, "w") as file:
        text = make()
        file.write(text + "\n")
    return text
