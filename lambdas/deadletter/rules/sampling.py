"""The share of letters that a rule in shadow mode looks at."""

from __future__ import annotations

import hashlib

_DIGEST_BYTES = 8


def is_sampled(origin: str, rule_id: str, share: float) -> bool:
    """Whether a letter belongs to the sample of a rule; `share` is 0 to 1.

    The same letter always does, in each of its lives, or never does; which letters do is another
    choice for each rule.
    """
    text = f"{rule_id}\0{origin}".encode(errors="surrogatepass")
    number = int.from_bytes(hashlib.sha256(text).digest()[:_DIGEST_BYTES], "big")
    return number < share * float(1 << 8 * _DIGEST_BYTES)
