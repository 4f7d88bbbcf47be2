"""The version of a rule: its counts belong to it, and an edit of what it does gives another one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

# Hexadecimal digits: two versions of one rule are the same by chance in one of 10^14 edits.
_DIGITS = 12


def version_of(what: Mapping[str, Any]) -> str:
    """The digest of what a rule does and to which letters.

    `what` are the columns that decide this, and no others: a rule that is disabled, extended or
    given another reason is the same rule. Columns without a value count as missing.
    """
    given = {name: value for name, value in what.items() if value is not None}
    text = json.dumps(given, sort_keys=True, separators=(",", ":"), default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]
