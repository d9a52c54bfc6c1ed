"""Small archives that cost much to read, and a large one: what each is made of."""

import bz2
import gzip
import lzma
import tarfile
import zlib
from struct import pack
from typing import Any

KIB, MIB = 1024, 1024**2


def header(name: str, size_bytes: int = 0, kind: bytes = tarfile.REGTYPE) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type = size_bytes, kind
    return info.tobuf(tarfile.GNU_FORMAT)


def packed(engine: Any, start: bytes, piece: bytes, count: int) -> bytes:
    """What a compressor makes of the start and so many times the piece."""
    parts = [engine.compress(start), *(engine.compress(piece) for _ in range(count))]
    return b"".join(parts) + engine.flush()


def gzipped(start: bytes, piece: bytes, count: int) -> bytes:
    return packed(zlib.compressobj(6, wbits=31), start, piece, count)


def digits() -> bytes:
    """A pattern of `tarfile` looks at each of them in quadratic time (before 3.11.10)."""
    return bz2.compress(header("x", MIB, tarfile.XHDTYPE) + b"0" * MIB)


def many_digits() -> bytes:
    digits_only = header("x", 16 * KIB, tarfile.XHDTYPE) + b"0" * 16 * KIB
    return bz2.compress(b"".join(digits_only + header(f"a{number}") for number in range(400)))


def long_name() -> bytes:
    return gzipped(header("x", 600 * MIB, tarfile.GNUTYPE_LONGNAME), b"a" * MIB, 600)


def long_name_bz2() -> bytes:
    """The same in some 500 bytes."""
    start = header("x", 600 * MIB, tarfile.GNUTYPE_LONGNAME)
    return packed(bz2.BZ2Compressor(), start, b"a" * MIB, 600)


def long_pax() -> bytes:
    return gzipped(header("x", 512 * MIB, tarfile.XHDTYPE), b"a" * MIB, 512)


def folders() -> bytes:
    return gzipped(b"", header("d/", 0, tarfile.DIRTYPE) * 1000, 400)


def sparse_map() -> bytes:
    first = bytearray(header("a", 0, tarfile.GNUTYPE_SPARSE))
    first[482] = 1  # more of the map follows
    first[148:156] = b"%06o\0 " % tarfile.calc_chksums(bytes(first))[0]
    more = (b"00000000001\0" * 42).ljust(504, b"\0") + b"\1" + b"\0" * 7
    return gzipped(bytes(first), more * 2048, 100)


def zeros() -> bytes:
    # Streams may follow each other, so one that is small stands for many.
    return gzip.compress(header("a", 8 * 1024 * MIB)) + gzip.compress(bytes(MIB)) * 8192


def large_dictionary() -> bytes:
    filters = [{"id": lzma.FILTER_LZMA2, "dict_size": 2**30}]
    return lzma.compress(header("a"), filters=filters)


def million_names() -> bytes:
    entry = pack("<4s4H3I5H2I", b"PK\1\2", 20, 20, 0, 0, *(0,) * 3, 4, *(0,) * 6) + b"name"
    count = 1_000_000
    size = len(entry) * count
    record = pack("<4sQ2H2I4Q", b"PK\6\6", 44, 45, 45, 0, 0, count, count, size, 0)
    where = pack("<4sIQI", b"PK\6\7", 0, size, 1)
    return (
        entry * count
        + record
        + where
        + pack("<4s4H2IH", b"PK\5\6", 0, 0, *(2**16 - 1,) * 2, 2**32 - 1, 2**32 - 1, 0)
    )
