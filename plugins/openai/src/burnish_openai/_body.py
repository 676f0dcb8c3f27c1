"""Read what an endpoint sends, up to a bound: on the wire and again when it is unpacked."""

from __future__ import annotations

import zlib
from contextlib import aclosing

import httpx2


async def read_body(response: httpx2.Response, into: bytearray, most: int) -> None:
    """Read the body as it is sent into `into`; beyond `most` bytes the connection is closed, and `into` is longer.

    Raises `httpx2.TransportError` where the connection breaks; what came before is in `into`.
    """
    try:
        async with aclosing(response.aiter_raw()) as chunks:
            async for chunk in chunks:
                into += chunk
                if len(into) > most:
                    # Not a `break`: it would leave httpx2's inner generators to the garbage collector. Reading on from
                    # a closed connection ends them.
                    await response.aclose()
    except httpx2.TransportError:
        if len(into) <= most:
            raise


def unpack(body: bytes, encoding: str, most: int) -> bytes:
    """Undo a content encoding that nobody asked for, up to `most` + 1 bytes; raise `ValueError` where it cannot be."""
    if encoding in ("", "identity"):
        return body
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise ValueError(f"unknown content encoding {encoding[:40]!r}")
    # 32 + 15: gzip or zlib, whichever its header says, with the largest window.
    decoder = zlib.decompressobj(47)
    try:
        data = decoder.decompress(body, most + 1)
    except zlib.error as error:
        raise ValueError(str(error)) from None
    if not decoder.eof and len(data) <= most:
        raise ValueError("it is cut off")
    return data
