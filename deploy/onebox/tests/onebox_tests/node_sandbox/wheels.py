"""What tests of images install: a wheel, and an image of its own in a node's home."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from onebox.node.images import ImageError, Images

SLIM = "python:3.11-slim"


def make_wheel(folder: Path, *, version: str = "1.0") -> Path:
    """Write a wheel with a module and a command `hello`."""
    path = folder / f"hello-{version}-py3-none-any.whl"
    info = f"hello-{version}.dist-info"
    files = {
        "hello.py": "def main():\n    print('hello from', __file__)\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: hello\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": "[console_scripts]\nhello = hello:main\n",
    }
    record = "".join(f"{name},,\n" for name in files) + f"{info}/RECORD,,\n"
    with zipfile.ZipFile(path, "w") as wheel:
        for name, text in {**files, f"{info}/RECORD": record}.items():
            wheel.writestr(name, text)
    return path


def define(home: Path, requirements: str, more: str = "") -> None:
    folder = home / "images"
    (folder / "hello.txt").write_text(requirements)
    text = f'[[image]]\nreference = "test/hello:1"\nrequirements = "hello.txt"\n{more}'
    (folder / "own.toml").write_text(text)


async def failure(images: Images, reference: str) -> ImageError:
    with pytest.raises(ImageError) as caught:
        await images.ensure(reference, lambda _line: None)
    return caught.value


def left_over(home: Path) -> list[str]:
    return [path.name for path in (home / "images" / "envs").iterdir()]
