"""Archives of tests, in memory: what honest people pack, and what others do."""

import io
import tarfile
import zipfile
from typing import Any


def tar_of(*members: tuple[str, bytes] | tarfile.TarInfo, **options: Any) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", **options) as archive:
        for member in members:
            if isinstance(member, tarfile.TarInfo):
                archive.addfile(member, io.BytesIO(b"x" * member.size))
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                archive.addfile(info, io.BytesIO(member[1]))
    return buffer.getvalue()


def special(name: str, kind: bytes, link: str = "", **fields: Any) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = link
    for key, value in fields.items():
        setattr(info, key, value)
    return info


def zip_of(*members: tuple[str | zipfile.ZipInfo, bytes], **options: Any) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, data in members:
            archive.writestr(name, data)
    return buffer.getvalue()
