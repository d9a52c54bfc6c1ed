"""What every command is given: options, terminal, output, and the portal it speaks to."""

from __future__ import annotations

import argparse
import os
from functools import cached_property
from pathlib import Path
from typing import Any

from . import contexts
from .contexts import Context
from .output import Output
from .rest import Rest
from .terminal import Terminal


class Session:
    """One run of the command line."""

    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self.options = options
        self.terminal = terminal
        self.output = Output(terminal, getattr(options, "output", "table"))
        self.folder: Path = contexts.config_folder()

    @cached_property
    def _chosen(self) -> tuple[str, Context]:
        saved = contexts.load(self.folder, self.terminal)
        return contexts.choose(saved, self.options.context)

    @property
    def context_name(self) -> str:
        return self._chosen[0]

    @property
    def context(self) -> Context:
        return self._chosen[1]

    @cached_property
    def rest(self) -> Rest:
        """The portal of the context."""
        context = self.context
        return Rest(
            context.url,
            context.token,
            ca_file=self.ca_file or context.ca_file,
            tell=self.terminal.tell,
        )

    @property
    def ca_file(self) -> str:
        """Certificates named by flag or environment; SSL_CERT_FILE is read by OpenSSL itself."""
        return self.options.ca_file or os.environ.get("HOMEPORT_CA_FILE", "")

    @cached_property
    def me(self) -> dict[str, Any]:
        """Who the token belongs to, as the portal says."""
        found = self.rest.get("me/")
        return found if isinstance(found, dict) else {}

    @property
    def user_name(self) -> str:
        return self.context.user or str(self.me.get("username", ""))
