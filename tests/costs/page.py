"""The tables of docs/cost.md, from AWS's prices and what was counted.

`python -m tests.costs.page` writes them between the page's marks; a test holds them equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from deadletter.contract import MAIN_DLQ, MINUTE
from infra.prices import CHECKED, Price, Usage
from tests.costs.estimates import (
    DOCS,
    PipelineShape,
    app_month,
    idle_month,
    million_letters,
    outage,
    together,
)

PAGE = DOCS / "cost.md"

PIPELINES = 100


def tables() -> Mapping[str, str]:
    """The tables by the names of their marks."""
    return {
        "idle": table(("a pipeline", *_paid_for()), _rows(idle_month())),
        "months": table(("an app, or other settings", "a month"), _months()),
        "letters": table(
            ("what happens to them", "$", "of it"),
            ((what, _dollars(usage), _parts(usage)) for what, usage in million_letters().items()),
        ),
        "outage": table(
            ("hours", "$", "of it"),
            (
                (str(hours), _dollars(together(outage(hours)), 3), _named(outage(hours)))
                for hours in (1, 8, 24)
            ),
        ),
        "prices": table(
            (f"price, compared on {CHECKED}", "$", "page of AWS"),
            (
                (_unit(price), f"{price.listed:.4f}".rstrip("0").rstrip("."), price.page)
                for price in Price
            ),
        ),
    }


def written(text: str) -> str:
    """The page with its tables written anew."""
    for name, content in tables().items():
        begin, end = re.escape(f"<!-- cost: {name} -->"), "<!-- end -->"
        text, times = re.subn(
            rf"({begin}\n).*?({end})", rf"\g<1>\n{content}\n\g<2>", text, flags=re.DOTALL
        )
        if times != 1:
            raise SystemExit(f"{PAGE.name} has {times} places for the table {name}; one is needed")
    return text


def _months() -> Iterator[tuple[str, str]]:
    drained = PipelineShape(queues=4, every={MAIN_DLQ: MINUTE, "slow": 10 * MINUTE})
    slow = PipelineShape(every={MAIN_DLQ: 5 * MINUTE})
    lean = app_month(key=False, dashboard=False)
    yield "the app beside its pipelines", _dollars(together(app_month()))
    yield "… with a key or topic of yours, without its dashboard", _dollars(together(lean))
    webhook, keyed = PipelineShape(webhook=True), PipelineShape(key=True)
    yield "a pipeline with our webhook consumer: AWS polls its queue", _sum(idle_month(webhook))
    yield "a pipeline under a `kms_key_arn` of yours, at most", _sum(idle_month(keyed))
    yield "a pipeline with one more DLQ, drained each ten minutes", _sum(idle_month(drained))
    yield "a pipeline with `redrive.every` of `5m`", _sum(idle_month(slow))
    many = together(idle_month()) * PIPELINES + together(app_month())
    yield f"{PIPELINES} pipelines and their app", _dollars(many)


def _sum(parts: Mapping[str, Usage]) -> str:
    return _dollars(together(parts))


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table of Markdown."""
    head = list(head)
    lines = [head, ["---", *["--:"] * (len(head) - 1)], *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _paid_for() -> list[str]:
    return [*together(idle_month()).by_service, "together"]


def _rows(parts: Mapping[str, Usage]) -> Iterator[list[str]]:
    services = _paid_for()[:-1]
    for what, usage in {**parts, "**together**": together(parts)}.items():
        by_service = usage.by_service
        shown = (f"{by_service[each]:.2f}" if each in by_service else "" for each in services)
        yield [what, *shown, _dollars(usage)]


def _dollars(usage: Usage, digits: int = 2) -> str:
    return f"{usage.dollars:.{digits}f}"


def _parts(usage: Usage) -> str:
    return ", ".join(f"{what} {dollars:.2f}" for what, dollars in usage.by_service.items())


def _named(parts: Mapping[str, Usage]) -> str:
    return ", ".join(f"{what} {usage.dollars:.3f}" for what, usage in parts.items())


def _unit(price: Price) -> str:
    return price.unit if price.number == 1 else f"a million {price.unit}"


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
