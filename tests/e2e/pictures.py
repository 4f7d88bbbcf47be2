"""Pictures in `docs`: of few colours, and each keeps the hash of what it shows.

So a test can tell an old one.
"""

from __future__ import annotations

import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

from sandbox.server import ROOT

SCHEMES = ("light", "dark")

# CSS pixels, and pixels of the picture for each.
WIDTH, MARGIN, SCALE = 900, 12, 1.5

# The commonest colours, to which all others are changed: what is left are the edges of texts.
COLOURS = 255

_SIGNATURE, _KEY = b"\x89PNG\r\n\x1a\n", b"page-sha256"


def picture(name: str, scheme: str) -> Path:
    """Where the picture of that page in that colour scheme is kept."""
    return ROOT / "docs" / f"{name}-{scheme}.png"


def kept_hash(png: bytes) -> str:
    """The hash that a picture keeps; empty if it keeps none."""
    for kind, data in _chunks(png):
        key, _, value = data.partition(b"\0")
        if kind == b"tEXt" and key == _KEY:
            return value.decode()
    return ""


def size(png: bytes) -> tuple[int, int]:
    """Its width and its height, in pixels."""
    width, height = struct.unpack(">II", dict(_chunks(png))[b"IHDR"][:8])
    return width, height


def upper(tab: Page, until: str, shown: str) -> bytes:
    """Draw a page down to the end of the element *until*; the picture keeps the hash *shown*."""
    box = tab.locator(until).last.bounding_box()
    assert box is not None
    height = round(box["y"] + box["height"]) + MARGIN
    clip: Any = {"x": 0, "y": 0, "width": WIDTH, "height": height}
    return few_colours(tab.screenshot(full_page=True, clip=clip), {_KEY: shown.encode()})


def few_colours(png: bytes, texts: Mapping[bytes, bytes]) -> bytes:
    """The picture with `COLOURS` colours at most, so that it is a third as large."""
    rows = _pixels(png)
    numbers = Counter(pixel for row in rows for pixel in row)
    palette = [colour for colour, _ in numbers.most_common(COLOURS)]

    @cache
    def nearest(pixel: bytes) -> int:
        return min(
            range(len(palette)),
            key=lambda place: sum((a - b) ** 2 for a, b in zip(palette[place], pixel, strict=True)),
        )

    data = b"".join(b"\0" + bytes(map(nearest, row)) for row in rows)
    header = struct.pack(">IIBBBBB", len(rows[0]), len(rows), 8, 3, 0, 0, 0)
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in (
            (b"IHDR", header),
            (b"PLTE", b"".join(palette)),
            *((b"tEXt", key + b"\0" + value) for key, value in texts.items()),
            (b"IDAT", zlib.compress(data, 9)),
            (b"IEND", b""),
        )
    )


def _chunks(png: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while place < len(png):
        (length,) = struct.unpack_from(">I", png, place)
        yield png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        place += length + 12


def _pixels(png: bytes) -> list[list[bytes]]:
    """Rows of three bytes each, of a picture as Chromium writes it: 8 bits, no interlacing."""
    width, height, bits, colour = struct.unpack(">IIBB", dict(_chunks(png))[b"IHDR"][:10])
    # Red, green and blue; with opacity, or without.
    wide = {2: 3, 6: 4}[colour]
    assert bits == 8
    data = zlib.decompress(b"".join(body for kind, body in _chunks(png) if kind == b"IDAT"))
    stride = width * wide
    above = bytearray(stride)
    rows = []
    for start in range(0, height * (stride + 1), stride + 1):
        above = _unfiltered(
            data[start], bytearray(data[start + 1 : start + 1 + stride]), above, wide
        )
        rows.append([bytes(above[place : place + 3]) for place in range(0, stride, wide)])
    return rows


def _unfiltered(kind: int, row: bytearray, above: bytearray, wide: int) -> bytearray:
    """Undo a filter of PNG (its specification, 9.2)."""
    for place in range(len(row) if kind else 0):
        left = row[place - wide] if place >= wide else 0
        corner = above[place - wide] if place >= wide else 0
        up = above[place]
        predicted = (0, left, up, (left + up) // 2, _paeth(left, up, corner))[kind]
        row[place] = (row[place] + predicted) & 0xFF
    return row


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))
