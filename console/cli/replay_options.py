"""How two commands show how far they are."""

from __future__ import annotations

from .progress import end, say

progress, end_progress = say, end
