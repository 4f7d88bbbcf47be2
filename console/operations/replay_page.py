"""The account of a replay run as one page of HTML: no script, and nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from .replay_report import MEANING, GroupAccount, RunAccount, RunMinute
from .words import duration

# Good outcomes are green, failures red, the rest between; readable in print and for most eyes.
_COLOURS: Mapping[str, str] = {
    "RECOVERED": "#2f9e44",
    "DUPLICATE": "#74b816",
    "DELIVERED": "#1c7ed6",
    "DISCARDED": "#868e96",
    "PARKED": "#e03131",
    "QUARANTINED": "#c2255c",
    "UNKNOWN": "#f08c00",
    "EXPIRED": "#9c6644",
    "STOPPED": "#7048e8",
    "LEFT": "#adb5bd",
    "RETURNED": "#ffa94d",
    "SENT": "#66d9e8",
    "OPEN": "#dee2e6",
}
_ALARM = "#000000"

_WIDTH, _HEIGHT = 720, 180

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.says { font-size: 1.15rem; font-weight: 600; } .broken { color: #e03131; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .5em; border: 1px solid #8888; }
svg { width: 100%; height: auto; } svg text { fill: currentColor; font-size: 11px; }
code { font-size: .95em; word-break: break-all; }
footer { margin-top: 2rem; opacity: .7; font-size: .85rem; }
"""


def page(account: RunAccount) -> str:
    """The page. All texts of letters and people are escaped; bodies are not in it."""
    return "\n".join(_page(account)) + "\n"


def _page(account: RunAccount) -> Iterator[str]:
    run = account.run
    title = f"Replay run {run.run} of {run.pipeline}"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{escape(title)}</h1>"
    place = f"app {account.app} in account {account.account}, {account.region}"
    yield f"<p>{escape(place)}: <strong>{escape(run.state)}</strong></p>"
    broken = " broken" if run.state == "BROKEN" or account.unaccounted else ""
    yield f'<p class="says{broken}">{escape(account.says)}</p>'
    if account.missed:
        yield f"<p>{escape(account.missed)}</p>"
    if not account.final:
        yield "<p>The run has not ended: these are the figures as of now.</p>"
    yield _stack(account.counts, account.letters, height=34, title="Letters by outcome")
    yield from _outcomes(account)
    if account.minutes:
        yield "<h2>Minute by minute</h2>"
        yield _columns(account.minutes)
        yield f"<p>{_legend(account.minutes)}</p>"
    if account.causes:
        yield "<h2>By cause</h2>"
        yield from _groups(account.causes, "Cause of the last failure before the run")
    if any(group.name for group in account.tenants):
        yield "<h2>By tenant</h2>"
        yield from _groups(account.tenants, "Tenant")
    if account.keys:
        yield "<h2>Ordering keys that failed most</h2>"
        yield from _groups(account.keys, "Hash of the ordering key")
    yield "<h2>The run</h2><table>"
    for name, value in _facts(account):
        yield f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
    yield "</table>"
    yield f"<footer>Written by dlq replay report at {account.at:%Y-%m-%d %H:%M} UTC.</footer>"
    yield "</body></html>"


def _outcomes(account: RunAccount) -> Iterator[str]:
    yield '<table><tr><th>Outcome</th><th>Means</th><th class="n">Letters</th>'
    yield '<th class="n">Share</th></tr>'
    for name, number in account.counts.items():
        share = f"{number / account.letters:.1%}" if account.letters else ""
        yield (
            f"<tr><td>{_swatch(name)}{escape(name)}</td>"
            f"<td>{escape(MEANING.get(name, ''))}</td>"
            f'<td class="n">{number:,}</td><td class="n">{share}</td></tr>'
        )
    yield (
        f"<tr><td>UNACCOUNTED</td><td>{escape(MEANING['UNACCOUNTED'])}</td>"
        f'<td class="n">{account.unaccounted:,}</td><td></td></tr>'
    )
    yield f'<tr><th>Snapshot</th><td></td><td class="n">{account.letters:,}</td><td></td></tr>'
    yield "</table>"


def _groups(groups: Sequence[GroupAccount], heading: str) -> Iterator[str]:
    yield f'<table><tr><th>{escape(heading)}</th><th class="n">Letters</th><th>Outcomes</th></tr>'
    for group in groups:
        category = f" ({escape(group.category)})" if group.category else ""
        says = ", ".join(f"{number:,} {name.lower()}" for name, number in group.counts.items())
        bar = _stack(group.counts, group.letters, height=12, title=says)
        name = escape(group.name) or "none"
        yield (
            f"<tr><td><code>{name}</code>{category}</td>"
            f'<td class="n">{group.letters:,}</td><td>{bar}{escape(says)}</td></tr>'
        )
    yield "</table>"


def _facts(account: RunAccount) -> Iterator[tuple[str, str]]:
    run = account.run
    yield "From, to", f"{account.source} to {account.destination}"
    yield "Planned by", account.who
    yield "Why", account.why
    if run.created and run.changed:
        seconds = (run.changed - run.created).total_seconds()
        yield "Started", f"{run.created:%Y-%m-%d %H:%M:%S} UTC"
        yield "Last change", f"{run.changed:%Y-%m-%d %H:%M:%S} UTC, {duration(seconds)} later"
    if run.because:
        yield "Because", run.because
    yield "Changed last by", run.by
    yield "Tries that came back", f"{account.returned:,}"


def _legend(minutes: Sequence[RunMinute]) -> str:
    """The outcomes of the columns with their colours."""
    names = dict.fromkeys(name for minute in minutes for name in minute.counts)
    return " ".join(f"{_swatch(name)}{escape(name)}&ensp;" for name in names)


def _swatch(name: str) -> str:
    return f'<span class="swatch" style="background:{_colour(name)}"></span>'


def _colour(name: str) -> str:
    return _COLOURS.get(name, _ALARM)


def _stack(counts: Mapping[str, int], letters: int, *, height: int, title: str) -> str:
    """One bar, divided by outcome."""
    total = max(letters, sum(counts.values()), 1)
    at = 0.0
    parts = []
    for name, number in counts.items():
        width = _WIDTH * number / total
        parts.append(
            f'<rect x="{at:.2f}" y="0" width="{width:.2f}" height="{height}" '
            f'fill="{_colour(name)}"><title>{escape(name)}: {number:,}</title></rect>'
        )
        at += width
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" preserveAspectRatio="none" '
        f'style="height:{height}px"><title>{escape(title)}</title>{"".join(parts)}</svg>'
    )


def _columns(minutes: Sequence[RunMinute]) -> str:
    """A column for each minute, divided by outcome."""
    most = max((sum(minute.counts.values()) for minute in minutes), default=0) or 1
    width = _WIDTH / len(minutes)
    parts = []
    for place, minute in enumerate(minutes):
        y = float(_HEIGHT)
        for name, number in minute.counts.items():
            height = _HEIGHT * number / most
            y -= height
            at = f"{minute.at:%H:%M} " if minute.at else ""
            parts.append(
                f'<rect x="{place * width:.2f}" y="{y:.2f}" width="{max(1.0, width - 1):.2f}" '
                f'height="{height:.2f}" fill="{_colour(name)}">'
                f"<title>{at}{escape(name)}: {number:,}</title></rect>"
            )
    first, last = minutes[0].at, minutes[-1].at
    labels = (
        f'<text x="0" y="{_HEIGHT + 14}">{first:%H:%M} UTC</text>'
        f'<text x="{_WIDTH}" y="{_HEIGHT + 14}" text-anchor="end">{last:%H:%M} UTC</text>'
        if first and last
        else ""
    )
    return (
        f'<svg viewBox="0 -14 {_WIDTH} {_HEIGHT + 32}" role="img">'
        f"<title>Outcomes minute by minute</title>"
        f'<text x="0" y="-3">{most:,} letters a minute</text>{"".join(parts)}{labels}</svg>'
    )
