"""`homeport images`: what a training may name as its image."""

from __future__ import annotations

import click

from .amounts import age_text
from .exits import OK
from .options import Command, output_option
from .output import Column
from .sanitize import one_line
from .session import CliSession

_COLUMNS = (
    Column("IMAGE"),
    Column("TITLE", shrinks_to=12),
    Column("RAN", lambda row: age_text(row["ran_at"]) if row.get("ran_at") else "", is_right=True),
    Column("ABOUT", lambda row: row.get("summary"), shrinks_to=20, leaves_at=90, wraps=True),
)


@click.command(cls=Command)
@output_option
@click.pass_obj
def images(session: CliSession) -> int:
    """List images: what your admin offers, and what ran in your namespace.

    RAN is how long ago a training of yours last began with it. Below stands which of them cannot start here.
    """
    rows = list(session.rest.every("images/"))
    session.output.rows(
        rows,
        _COLUMNS,
        "No image is offered, and no training of yours has run yet.",
        lambda row: one_line(row.get("image", "")),
    )
    if not session.output.is_data:
        for row in rows:
            if row.get("problem"):
                session.terminal.warn(row["problem"])
    return OK
