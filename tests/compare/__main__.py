"""Writes the tables of docs/compare.md anew."""

from __future__ import annotations

from tests.compare.page import PAGE, rendered

PAGE.write_text(rendered(PAGE.read_text()))
