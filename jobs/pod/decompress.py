"""Decompresses what a user made, in pieces of bounded size."""

import bz2
import lzma
import zlib
from collections.abc import Callable, Iterator
from typing import IO, Any

from jobs.pod.errors import PodError
from jobs.pod.protocol import codes

XZ_MEMORY_BYTES = 96 * 1024**2  # `xz -9` needs 65 MiB
PIECE_BYTES = 256 * 1024


def decompressed(file: IO[bytes]) -> Iterator[bytes]:
    """The content of a plain, gzip, bzip2 or xz file, in pieces of bounded size."""
    start = file.read(6)
    file.seek(0)
    if start[:2] == b"\x1f\x8b":
        return _inflated(file, lambda: zlib.decompressobj(31), b"\x1f\x8b")
    if start[:3] == b"BZh":
        return _inflated(file, bz2.BZ2Decompressor, b"BZh")
    if start == b"\xfd7zXZ\x00":
        return _inflated(
            file,
            lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=XZ_MEMORY_BYTES),
            b"\xfd7zXZ\x00",
        )
    return iter(lambda: file.read(PIECE_BYTES), b"")


def _inflated(file: IO[bytes], begin: Callable[[], Any], magic: bytes) -> Iterator[bytes]:
    """Several compressed streams may follow each other; what follows without magic is padding."""
    waiting = b""
    while True:
        waiting = waiting or file.read(PIECE_BYTES)
        if not waiting.startswith(magic[: len(waiting)]) or not waiting:
            return
        engine = begin()
        while not engine.eof:
            try:
                piece = engine.decompress(waiting, PIECE_BYTES)
            # The three libraries have an error of their own each; bz2's is OSError.
            except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
                if "usage limit" in str(error):
                    limit = XZ_MEMORY_BYTES // 1024**2
                    raise PodError(
                        codes.BUNDLE_TOO_LARGE, f"unpacking it needs more than {limit} MiB"
                    ) from error
                raise PodError(codes.BUNDLE_BROKEN, f"the archive is damaged ({error})") from error
            # zlib hands back what it had no room for, the others keep it.
            waiting = getattr(engine, "unconsumed_tail", b"")
            if piece:
                yield piece
            if not engine.eof and not waiting and getattr(engine, "needs_input", True):
                waiting = file.read(PIECE_BYTES)
                if not waiting and not piece:
                    raise PodError(codes.BUNDLE_BROKEN, "the archive ends too early")
        waiting = engine.unused_data
