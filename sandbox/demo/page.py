"""The demo's report as one page of HTML: no script, and nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

Report = Mapping[str, Any]
"""What `sandbox.demo.run.figures` writes."""

_WIDTH, _HEIGHT = 720, 200
_AXIS = 18

# By place; seen on a light page and on a dark one.
_LINES: Mapping[str, tuple[str, str]] = {
    "delivered": ("delivered", "#2f9e44"),
    "waiting_room": ("in the waiting room", "#1c7ed6"),
    "dlq": ("in the DLQ", "#f08c00"),
    "parking_lot": ("parked", "#c2255c"),
}

_COMPARED = {
    "broken": "requests to the endpoint that was down",
    "duplicates": "duplicates",
    "poison_rounds": "tries of letters without hope",
    "lost": "lost",
    "changed": "arrived changed",
    "left": "left in the DLQ",
}

_ZERO = {
    "waiting": "still on its way",
    "lost": "lost",
    "strangers": "bodies that nobody sent",
    "altered": "attributes changed",
    "astray": "another end than planned",
    "unrecorded": "healed, unknown to the ledger",
}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.5rem; margin-bottom: .2rem; } h2 { font-size: 1.1rem; margin-top: 2rem; }
.says { font-size: 1.15rem; font-weight: 600; }
.wrong { color: #e03131; color: light-dark(#c92a2a, #ff8787); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .3rem .6rem; border-bottom: 1px solid #8884;
  vertical-align: top; overflow-wrap: break-word; }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; }
small { opacity: .8; }
svg { width: 100%; height: 14rem; display: block; print-color-adjust: exact; }
polyline { vector-effect: non-scaling-stroke; }
.flow { display: flex; flex-wrap: wrap; gap: .5rem; align-items: stretch; list-style: none;
  padding: 0; }
.flow li { flex: 1 1 8rem; border: 1px solid #8888; border-radius: .4rem; padding: .5rem .7rem; }
.flow b { display: block; font-size: 1.4rem; font-variant-numeric: tabular-nums; }
.legend { display: flex; flex-wrap: wrap; gap: 0 1.2em; }
.swatch { display: inline-block; width: .8em; height: .8em; border-radius: 2px;
  margin-right: .5em; border: 1px solid #8888; print-color-adjust: exact; }
.wide { overflow-x: auto; } .wide table { min-width: 36rem; }
td.n:first-child { width: 4rem; }
pre { overflow-x: auto; border: 1px solid #8884; padding: .7rem;
  border-radius: .4rem; font-size: .85rem; line-height: 1.4; }
.ends { display: flex; justify-content: space-between; font-size: .85rem; }
footer { margin-top: 2rem; opacity: .7; font-size: .85rem; }
"""


def write(report: Report, file: Path) -> None:
    """Write the page to *file*."""
    file.write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """The page. All texts are escaped; bodies are not in it."""
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"Deadletter: what became of {report['sent']:,} events"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body>"
    yield f"<h1>{escape(title)}</h1>"
    yield from _verdict(report)
    yield from _flow(report)
    yield from _over_time(report)
    yield from _tenants(report["tenants"])
    yield from _causes(report["causes"])
    yield from _account(report)
    yield from _life(report["letter"])
    yield from _beside(report["beside"])
    yield from _told(report["timeline"])
    yield (
        "<footer>Written by <code>make demo</code>: the app as it is deployed, in an AWS on this"
        " machine. Its settings are compressed in time; its code is the code.</footer>"
    )
    yield "</body></html>"


def _verdict(report: Report) -> Iterator[str]:
    wrong = {name: report[name] for name in _ZERO if report[name]}
    rang = report["alarms_that_rang"]
    if wrong or rang:
        words = [f"{number:,} {_ZERO[name]}" for name, number in wrong.items()]
        words += [f"{len(rang)} alarms rang"] if rang else []
        yield f'<p class="says wrong">Not well: {escape("; ".join(words))}.</p>'
        return
    yield (
        f'<p class="says">All {report["sent"]:,} are accounted for: {report["delivered"]:,}'
        f" delivered, {_parked(report):,} parked with a reason, none lost.</p>"
    )


def _parked(report: Report) -> int:
    return sum(report["parked_by_reason"].values())


def _flow(report: Report) -> Iterator[str]:
    yield "<h2>Where they went</h2>"
    yield '<ol class="flow">'
    for number, name, why in (
        (report["sent"], "sent", "by one producer, for three tenants"),
        (report["delivered"] - report["healed"], "delivered at once", "nobody noticed"),
        (report["held"], "held in the waiting room", "while their endpoint was down"),
        (report["healed"], "healed", "failed, were re-driven, and arrived"),
        (_parked(report), "parked", "for a person, with the reason"),
        (report["lost"], "lost", "by the account, not by assumption"),
    ):
        yield f"<li><b>{number:,}</b>{escape(name)}<br><small>{escape(why)}</small></li>"
    yield "</ol>"


def _over_time(report: Report) -> Iterator[str]:
    samples = report["samples"]
    if len(samples) < 2:
        return
    outage = report["outage"]
    yield "<h2>Over time</h2>"
    yield _chart(samples, outage, report["circuit_open"])
    yield (
        f'<p class="ends"><span>{samples[0]["at"]:.0f} s</span>'
        f"<span>{samples[-1]['at']:.0f} s</span></p>"
    )
    yield '<p class="legend">'
    for name, colour in _LINES.values():
        yield f'<span><span class="swatch" style="background:{colour}"></span>{name}</span>'
    yield '<span><span class="swatch" style="background:#e0313155"></span>the outage</span>'
    yield '<span><span class="swatch" style="background:#7048e8"></span>circuit not closed</span>'
    yield "</p>"


def _chart(
    samples: Sequence[Mapping[str, Any]],
    outage: Mapping[str, float],
    open_spells: Sequence[Mapping[str, float]],
) -> str:
    first, last = samples[0]["at"], samples[-1]["at"]
    most = max(max(sample[name] for name in _LINES) for sample in samples) or 1

    def across(at: float) -> float:
        return (min(max(at, first), last) - first) / ((last - first) or 1) * _WIDTH

    def up(number: float) -> float:
        return _HEIGHT - number / most * (_HEIGHT - 14)

    began, ended = across(outage["began"]), across(outage["ended"])
    parts = [
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _AXIS}" preserveAspectRatio="none" role="img" '
        f'aria-label="Letters by place over time; the outage from {outage["began"]:.0f} to'
        f' {outage["ended"]:.0f} seconds">',
        f'<rect x="{began:.1f}" y="0" width="{ended - began:.1f}" height="{_HEIGHT}"'
        ' fill="#e03131" fill-opacity=".15"/>',
    ]
    for spell in open_spells:
        left, right = across(spell["from"]), across(spell["to"])
        parts.append(
            f'<rect x="{left:.1f}" y="{_HEIGHT + 6}" width="{max(1, right - left):.1f}"'
            ' height="8" fill="#7048e8"/>'
        )
    for name, (_, colour) in _LINES.items():
        points = " ".join(f"{across(each['at']):.1f},{up(each[name]):.1f}" for each in samples)
        parts.append(
            f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>'
        )
    return "".join([*parts, "</svg>"])


def _tenants(tenants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "<h2>Tenants: a circuit for each, so the healthy one goes on</h2>"
    yield '<div class="wide"><table><tr><th>Tenant</th><th>Circuit at the end</th>'
    yield '<th class="n">Delivered</th><th class="n">Parked</th><th>Answers</th></tr>'
    for each in tenants:
        answers = ", ".join(
            f"{number:,} with {escape(str(status))}" for status, number in each["answers"].items()
        )
        yield (
            f"<tr><td>{escape(each['name'])} <small>({escape(each['role'])})</small></td>"
            f'<td>{escape(each["circuit"])}</td><td class="n">{each["delivered"]:,}</td>'
            f'<td class="n">{each["parked"]:,}</td><td>{answers}</td></tr>'
        )
    yield "</table></div>"


def _causes(causes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "<h2>Why they failed</h2>"
    yield '<div class="wide"><table><tr><th>Cause</th><th>Tenant</th>'
    yield '<th class="n">Letters</th><th>What became of them</th></tr>'
    for each in causes:
        yield (
            f"<tr><td>{escape(each['cause'])}</td><td>{escape(each['tenant'])}</td>"
            f'<td class="n">{each["failures"]:,}</td><td>{escape(each["ended"])}</td></tr>'
        )
    yield "</table></div>"


def _account(report: Report) -> Iterator[str]:
    yield "<h2>The account</h2><table>"
    rows: list[tuple[str, int]] = [
        ("sent", report["sent"]),
        ("delivered", report["delivered"]),
        ("of them healed by a re-drive", report["healed"]),
        ("of them recovered, by the ledger", report["recovered"]),
        ("of them through the waiting room", report["held"]),
        *((f"parked as {why}", number) for why, number in report["parked_by_reason"].items()),
        *((name, report[key]) for key, name in _ZERO.items()),
        ("duplicates", report["duplicates"]),
    ]
    for name, number in rows:
        yield f'<tr><td>{escape(name)}</td><td class="n">{number:,}</td></tr>'
    yield "</table>"


def _life(letter: Mapping[str, str]) -> Iterator[str]:
    if not letter:
        return
    yield "<h2>One letter's life</h2>"
    yield f"<pre>$ {escape(letter['command'])}\n{escape(letter['output'])}</pre>"


def _beside(ways: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "<h2>The same events, otherwise</h2>"
    yield (
        "<p>A shell loop and native redrive are <strong>modelled</strong>, not run: a simulation"
        " of the same events and the same outage, each going once a minute like our schedule, until"
        " three minutes after the outage. Native redrive as AWS documents StartMessageMoveTask: all"
        " messages, no filter, at most 500 a second, new message ids.</p>"
    )
    yield '<div class="wide"><table><tr><th></th>'
    yield "".join(f'<th class="n">{escape(words)}</th>' for words in _COMPARED.values())
    yield "</tr>"
    for way in ways:
        cells = "".join(f'<td class="n">{way[name]:,}</td>' for name in _COMPARED)
        yield (
            f"<tr><td>{escape(way['system'])} <small>({escape(way['how'])})</small><br>"
            f"<small>{escape(way['note'])}</small></td>{cells}</tr>"
        )
    yield "</table></div>"


def _told(timeline: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield "<h2>As it happened</h2><table>"
    for moment in timeline:
        yield f'<tr><td class="n">{moment["at"]:.0f} s</td><td>{escape(moment["text"])}</td></tr>'
    yield "</table>"
