"""Write wire.json, the protobuf field numbers, from the Go sources of the Kubernetes API.

    python -m onebox.api.schemas.distil_wire PATH/TO/k8s.io

PATH holds the modules `api` and `apimachinery` (any version suffix after @). Needed only when
onebox moves to the shapes of a newer Kubernetes; the result is committed.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

OUTPUT = Path(__file__).with_name("wire.json")
DEFINITIONS = Path(__file__).with_name("kubernetes.json")

_STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
_FIELD = re.compile(
    r"^\t(?:(?P<name>\w+)[ \t]+)?(?P<type>[^\s`]+)[ \t]+`(?P<tags>[^`]*)`", re.MULTILINE
)
_NUMBER = re.compile(r'protobuf:"\w+,(\d+)')
_JSON = re.compile(r'json:"([^",]*)(,inline)?')
_META = "io.k8s.apimachinery.pkg.apis.meta.v1"

Table = dict[str, dict[str, str]]


def sources(root: Path) -> Iterator[tuple[str, Path]]:
    """Give the prefix of definition names and the file, for each package of types."""
    (api,) = root.glob("api@*") if not (root / "api").exists() else [root / "api"]
    for file in sorted(api.glob("*/v1/types.go")):
        yield f"io.k8s.api.{file.parts[-3]}.v1", file
    machinery = root / "apimachinery"
    (machinery,) = root.glob("apimachinery@*") if not machinery.exists() else [machinery]
    yield _META, machinery / "pkg/apis/meta/v1/types.go"


def read_structs(prefix: str, text: str) -> Table:
    """Give the fields of every struct in a file.

    Returns:
        definition name -> field number -> JSON name; "*" before a name: a pointer, whose zero
        is a value; ">" before a definition name: that struct's fields lie in this object.
    """
    table: Table = {}
    for struct in _STRUCT.finditer(text):
        fields: dict[str, str] = {}
        for field in _FIELD.finditer(struct[2]):
            number, name = _NUMBER.search(field["tags"]), _JSON.search(field["tags"])
            if number is None or name is None:
                continue
            kind = field["type"]
            if name[2]:
                fields[number[1]] = f">{prefix}.{kind.rsplit('.', 1)[-1]}"
            elif name[1] not in ("", "-"):
                fields[number[1]] = ("*" if kind.startswith("*") else "") + name[1]
        table[f"{prefix}.{struct[1]}"] = fields
    return table


def distil(root: Path) -> Table:
    """Collect the structs of the definitions that onebox has, and what they embed."""
    every: Table = {}
    for prefix, file in sources(root):
        every.update(read_structs(prefix, file.read_text()))
    wanted = [name for name in json.loads(DEFINITIONS.read_text()) if name in every]
    chosen: Table = {}
    while wanted:
        name = wanted.pop()
        if name not in chosen:
            chosen[name] = every[name]
            wanted.extend(v[1:] for v in every[name].values() if v.startswith(">"))
    return dict(sorted(chosen.items()))


def main() -> None:
    """Run the command line."""
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    lines = [
        f"{json.dumps(name)}:{json.dumps(fields, separators=(',', ':'))}"
        for name, fields in distil(Path(sys.argv[1])).items()
    ]
    OUTPUT.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
