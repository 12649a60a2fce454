"""How blobs are compressed, each by itself: none, deflate (RFC 1951) or zstd (RFC 8878).

Decoding is bounded by the length that the table declares: a blob that would become longer ends as
an error, whatever it is made of. Both take a dictionary: bytes that the blobs have in common.
"""

from __future__ import annotations

import functools
import zlib
from typing import Any

from .errors import CodecMissing, PackCorrupt
from .format import AGAIN

NONE, DEFLATE, ZSTD = range(3)
CODECS = {"none": NONE, "deflate": DEFLATE, "zstd": ZSTD}
NAMES = tuple(CODECS)
_BITS = -zlib.MAX_WBITS  # without the header and the checksum of zlib
_ZSTD_LEVEL = 19


def encode(codec: int, data: bytes, dictionary: bytes = b"") -> bytes:
    """The bytes compressed. CodecMissing."""
    if codec == NONE:
        return data
    if codec == ZSTD:
        return bytes(_compressor(dictionary).compress(data))
    made = (
        zlib.compressobj(9, zlib.DEFLATED, _BITS, 9, zlib.Z_DEFAULT_STRATEGY, dictionary)
        if dictionary
        else zlib.compressobj(9, zlib.DEFLATED, _BITS, 9)
    )
    return made.compress(data) + made.flush()


def decode(codec: int, data: bytes, size: int, where: str, dictionary: bytes = b"") -> bytes:
    """The bytes as they were, `size` of them. PackCorrupt where they are not, CodecMissing."""
    if codec == NONE:
        found = data
    elif codec == DEFLATE:
        found = _inflate(data, size, where, dictionary)
    elif codec == ZSTD:
        found = _unzstd(data, size, where, dictionary)
    else:
        raise PackCorrupt(
            "unknown codec", where=where, expected=" or ".join(NAMES), got=str(codec), do=AGAIN
        )
    if len(found) != size:
        raise _longer(where, size, len(found))
    return found


def require(codec: int, where: str) -> None:
    """CodecMissing if this machine cannot decode the codec."""
    if codec == ZSTD:
        _zstandard(where)


def _inflate(data: bytes, size: int, where: str, dictionary: bytes) -> bytes:
    reader = zlib.decompressobj(_BITS, dictionary) if dictionary else zlib.decompressobj(_BITS)
    try:
        found = reader.decompress(data, size + 1)  # one more tells a longer one
    except zlib.error as error:
        raise PackCorrupt(f"not deflate ({error})", where=where, do=AGAIN) from error
    if len(found) > size:
        raise _longer(where, size, "more")
    if not reader.eof or reader.unused_data:
        got = "more" if reader.unused_data else "a stream that does not end"
        raise PackCorrupt("deflate of another length", where=where, got=got, do=AGAIN)
    return found


def _unzstd(data: bytes, size: int, where: str, dictionary: bytes) -> bytes:
    zstandard = _zstandard(where)
    try:
        # What the frame declares is what its decoder would allocate.
        declared = zstandard.frame_content_size(data)
        if declared != size:
            raise _longer(where, size, declared)
        reader = _decompressor(dictionary)
        return bytes(reader.decompress(data, max_output_size=size, allow_extra_data=False))
    except zstandard.ZstdError as error:
        raise PackCorrupt(f"not zstd ({error})", where=where, do=AGAIN) from error


def _longer(where: str, size: int, got: object) -> PackCorrupt:
    return PackCorrupt(
        "blob of another length than declared",
        where=where,
        expected=f"{size} bytes",
        got=str(got),
        do=AGAIN,
    )


def _zstandard(where: str = "") -> Any:
    try:
        import zstandard
    except ImportError as error:
        raise CodecMissing(
            "zstd is not installed", where=where, do="pip install 'gristmill[zstd]'"
        ) from error
    return zstandard


@functools.lru_cache(4)
def _dictionary(data: bytes) -> Any:
    module = _zstandard()
    kind = module.DICT_TYPE_RAWCONTENT
    return module.ZstdCompressionDict(data, dict_type=kind) if data else None


def _compressor(dictionary: bytes) -> Any:
    made = _dictionary(dictionary)
    return _zstandard().ZstdCompressor(
        level=_ZSTD_LEVEL, dict_data=made, write_content_size=True, write_dict_id=False
    )


def _decompressor(dictionary: bytes) -> Any:
    return _zstandard().ZstdDecompressor(dict_data=_dictionary(dictionary))
