"""What is built, and what is not: `python -m tools.features_page` writes docs/roadmap.md."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE = ROOT / "docs" / "features.toml"
PAGE = ROOT / "docs" / "roadmap.md"

BUILT, MISSING, NEVER_RUN = "built", "missing", "never run on AWS"

INTRODUCTION = """\
# What is missing, and what never ran on AWS

What is built stands in [features.toml](features.toml): {built} claims, each with its page and the
test that shows it. This page is written from that file.

## Built, and never run on AWS

"""

MISSING_TITLE = "\n## Missing, or a limit\n\n"


@dataclass(frozen=True, kw_only=True)
class Feature:
    """A claim, with the page that explains it and the test that shows it.

    `says` are the words with which other pages may deny it, as long as it is not built.
    """

    id: str
    claim: str
    state: str
    page: str
    test: str = ""
    says: tuple[str, ...] = ()


@dataclass(frozen=True)
class FeatureFile:
    """The features, and denials on the pages that speak of no feature."""

    features: tuple[Feature, ...]
    said_of_no_feature: tuple[str, ...] = ()


def read(text: str) -> FeatureFile:
    """What a file such as docs/features.toml lists. Raises TypeError for an unknown field."""
    rows = tomllib.loads(text)
    of_none = tuple(rows.pop("said_of_no_feature", ()))
    features = (
        Feature(id=id_, **{**row, "says": tuple(row.get("says", ()))}) for id_, row in rows.items()
    )
    return FeatureFile(tuple(features), of_none)


def page(features: Iterable[Feature]) -> str:
    """The page of what is missing or never ran on AWS."""
    rows = [*features]
    built = sum(row.state == BUILT for row in rows)
    return (
        INTRODUCTION.format(built=built)
        + "".join(_lines(rows, NEVER_RUN))
        + MISSING_TITLE
        + "".join(_lines(rows, MISSING))
    )


def _lines(features: Iterable[Feature], state: str) -> Iterator[str]:
    for row in features:
        if row.state == state:
            path = (
                row.page.removeprefix("docs/") if row.page.startswith("docs/") else f"../{row.page}"
            )
            yield f"- {row.claim.removesuffix('.')} ([more]({path})).\n"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(read(FILE.read_text("utf-8")).features), encoding="utf-8")


if __name__ == "__main__":
    main()
