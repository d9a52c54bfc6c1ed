"""Homeport's own image on nodes of onebox: its programs for pods, in the folders of this checkout.

requirements.txt is made of requirements.in as onebox's images.toml says.
"""

import json
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
_POD_PROGRAMS = FOLDER.parents[1] / "jobs" / "pod"
# As the catalog has it now, and as it had it in pods that older versions started.
REFERENCES = ("ghcr.io/homeport/homeport:0.2.0", "ghcr.io/homeport/homeport:0.1.0")
# The first by name, for the last definition of a reference holds: an operator's own.
FILE = "00-homeport.toml"


def offer_image(node_home: Path) -> None:
    """Writes the definition where a node with this `--home` finds it, before the node starts."""
    folder = node_home / "images"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / FILE).write_text(
        "# Written at each start of Homeport, with the places of its files.\n"
        + "".join(map(definition, REFERENCES))
    )


def definition(reference: str) -> str:
    """An entry of a node's images: this checkout's programs by that name, as TOML."""
    requirements, programs = (
        _quoted(path) for path in (FOLDER / "requirements.txt", _POD_PROGRAMS)
    )
    return (
        f'[[image]]\nreference = "{reference}"\nrequirements = {requirements}\n'
        f'mounts = [{{ source = {programs}, path = "/opt/homeport/jobs/pod" }}]\n'
    )


def _quoted(path: Path) -> str:
    """A TOML string."""
    return json.dumps(str(path), ensure_ascii=False)
