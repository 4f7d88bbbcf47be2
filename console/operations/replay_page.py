"""The account of a replay run as one page of HTML: no script, and nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape

from .replay_report import MEANING, GroupAccount, RunAccount, RunMinute
from .words import count, duration

# Good outcomes are green, failures red, the rest between; readable in print and for most eyes.
_COLOURS: Mapping[str, str] = {
    "RECOVERED": "#2f9e44",
    "DUPLICATE": "#74b816",
    "DELIVERED": "#1c7ed6",
    "DISCARDED": "#868e96",
    "RESTORED": "#0ca678",
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
# Seen on a light page and on a dark one.
_ALARM = "#ff00ff"

_WIDTH, _HEIGHT = 720, 180

# A run of a minute or two has narrow columns, too.
_FEWEST_COLUMNS = 12

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText; }
h1, td { overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.says { font-size: 1.15rem; font-weight: 600; }
.broken { color: #e03131; color: light-dark(#c92a2a, #ff8787); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884; }
th.n, .name { white-space: nowrap; } small { opacity: .8; }
.groups, .facts { table-layout: fixed; } .facts th { width: 9.5rem; vertical-align: top; }
.groups th:first-child { width: 11rem; } .groups th.n { width: 4.5rem; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .5em; border: 1px solid #8888; print-color-adjust: exact; }
svg { width: 100%; display: block; print-color-adjust: exact; }
.ends { display: flex; justify-content: space-between; } .ends, .most { font-size: .8rem; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.2em; }
code { font-size: .95em; word-break: break-all; }
@media (max-width: 36rem) {
  .groups tr { display: grid; grid-template-columns: 1fr auto; border-bottom: 1px solid #8884; }
  .groups th, .groups td { border: 0; } .groups :is(th, td):last-child { grid-column: 1 / 3; }
  .groups :is(th, td) { width: auto !important; padding: .15rem 0; }
  .facts :is(th, td) { display: block; width: auto; } .facts th { border: 0; padding-bottom: 0; }
}
footer { margin-top: 2rem; opacity: .7; font-size: .85rem; }
"""


def page(account: RunAccount) -> str:
    """The page. All texts of letters and people are escaped; bodies are not in it."""
    return "\n".join(_page(account)) + "\n"


def _page(account: RunAccount) -> Iterator[str]:
    run = account.run
    title = f"Run {run.run} of {run.pipeline}"
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
    yield _stack(account.counts, account.messages, height=34, title="Messages by outcome")
    yield from _outcomes(account)
    if account.minutes:
        yield "<h2>Minute by minute</h2>"
        yield _columns(account.minutes)
        yield f'<p class="legend">{_legend(account.minutes)}</p>'
    if account.causes:
        yield "<h2>By cause</h2>"
        yield from _groups(account.causes, "Cause before the run")
    if any(group.name for group in account.tenants):
        yield "<h2>By tenant</h2>"
        yield from _groups(account.tenants, "Tenant")
    if account.keys:
        yield "<h2>Ordering keys that failed most</h2>"
        yield from _groups(account.keys, "Hash of the ordering key")
    yield '<h2>The run</h2><table class="facts">'
    for name, value in _facts(account):
        yield f"<tr><th>{escape(name)}</th><td>{escape(value)}</td></tr>"
    yield "</table>"
    yield f"<footer>Written by dlq show at {account.at:%Y-%m-%d %H:%M} UTC.</footer>"
    yield "</body></html>"


def _outcomes(account: RunAccount) -> Iterator[str]:
    yield '<table><tr><th>Outcome</th><th class="n">Messages</th>'
    yield '<th class="n">Share</th></tr>'
    for name, number in account.counts.items():
        share = f"{number / account.messages:.1%}" if account.messages else ""
        yield (
            f"<tr><td>{_named(name)}<br><small>{escape(MEANING.get(name, ''))}</small></td>"
            f'<td class="n">{number:,}</td><td class="n">{share}</td></tr>'
        )
    yield (
        f"<tr><td>UNACCOUNTED<br><small>{escape(MEANING['UNACCOUNTED'])}</small></td>"
        f'<td class="n">{account.unaccounted:,}</td><td></td></tr>'
    )
    yield f'<tr><th>All</th><td class="n">{account.messages:,}</td><td></td></tr>'
    yield "</table>"


def _groups(groups: Sequence[GroupAccount], heading: str) -> Iterator[str]:
    yield f'<table class="groups"><tr><th>{escape(heading)}</th><th class="n">Messages</th>'
    yield "<th>Outcomes</th></tr>"
    for group in groups:
        category = f" ({escape(group.category)})" if group.category else ""
        says = ", ".join(f"{number:,} {name.lower()}" for name, number in group.counts.items())
        bar = _stack(group.counts, group.messages, height=12, title=says)
        name = escape(group.name) or "not on record"
        yield (
            f"<tr><td><code>{name}</code>{category}</td>"
            f'<td class="n">{group.messages:,}</td><td>{bar}{escape(says)}</td></tr>'
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
    return "".join(_named(name) for name in names)


def _named(name: str) -> str:
    """An outcome behind its colour."""
    swatch = f'<span class="swatch" style="background:{_colour(name)}"></span>'
    return f'<span class="name">{swatch}{escape(name)}</span>'


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
    return _chart("".join(parts), height, title)


def _columns(minutes: Sequence[RunMinute]) -> str:
    """A column for each minute, divided by outcome. Its texts keep their size beside it."""
    most = max((sum(minute.counts.values()) for minute in minutes), default=0) or 1
    places = max(len(minutes), _FEWEST_COLUMNS)
    width = _WIDTH / places
    # Gaps narrower than a pixel would only make the colours pale.
    share_drawn = 0.96 if places <= _WIDTH / 6 else 1.0
    parts = []
    for place, minute in enumerate(minutes):
        y = float(_HEIGHT)
        for name, number in minute.counts.items():
            height = _HEIGHT * number / most
            y -= height
            at = f"{minute.at:%H:%M} " if minute.at else ""
            parts.append(
                f'<rect x="{place * width:.2f}" y="{y:.2f}" width="{width * share_drawn:.2f}" '
                f'height="{height:.2f}" fill="{_colour(name)}">'
                f"<title>{at}{escape(name)}: {number:,}</title></rect>"
            )
    chart = _chart("".join(parts), _HEIGHT, "Outcomes minute by minute")
    first, last = minutes[0].at, minutes[-1].at
    ends = f"<span>{first:%H:%M} UTC</span>" if first else ""
    if first and last and len(minutes) > 1:
        day = f"{last:%Y-%m-%d} " if last.date() != first.date() else ""
        ends += f"<span>{day}{last:%H:%M}</span>"
    share = f"{max(len(minutes) / places, 0.4):.0%}"
    return (
        f'<div class="most">{count(most, "message")} a minute</div>{chart}'
        f'<div class="ends" style="width:{share}">{ends}</div>'
    )


def _chart(parts: str, height: int, title: str) -> str:
    """An image as wide as the page, and as high as its units say in pixels."""
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" preserveAspectRatio="none" '
        f'style="height:{height}px"><title>{escape(title)}</title>{parts}</svg>'
    )
