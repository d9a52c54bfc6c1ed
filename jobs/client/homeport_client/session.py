"""What every command is given: terminal, output, common options, and the portal it speaks to."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from . import contexts
from .answers import Json
from .contexts import Context
from .output import Output
from .terminal import Terminal

if TYPE_CHECKING:
    from .rest import Rest


class CliSession:
    """One run of the command line."""

    def __init__(
        self, terminal: Terminal, command: Sequence[str] = (), *, is_hasty: bool = False
    ) -> None:
        """`command` is what stands behind `--`; `is_hasty` as of `Rest`."""
        self.terminal = terminal
        self.command = list(command)
        self.output = Output(terminal)
        self.context_option: str | None = None
        self.ca_option = ""
        self.folder: Path = contexts.config_folder()
        self._is_hasty = is_hasty

    @cached_property
    def chosen(self) -> tuple[str, Context]:
        """The name of the context to work in, and the context."""
        return contexts.choose(contexts.load(self.folder, self.terminal), self.context_option)

    @cached_property
    def rest(self) -> Rest:
        """The portal of the context."""
        from .rest import Rest

        _name, context = self.chosen
        return Rest(
            context.url,
            context.token,
            ca_file=self.ca_file or context.ca_file,
            is_hasty=self._is_hasty,
            tell=self.terminal.tell,
        )

    @property
    def ca_file(self) -> str:
        """Certificates named by flag or environment; SSL_CERT_FILE is read by OpenSSL itself."""
        return self.ca_option or os.environ.get("HOMEPORT_CA_FILE", "")

    @cached_property
    def me(self) -> Json:
        """Who the token belongs to, as the portal says."""
        found = self.rest.get("me/")
        return found if isinstance(found, dict) else {}

    @property
    def user_name(self) -> str:
        return self.chosen[1].user or str(self.me.get("username", ""))
