"""The demo's report as one page of HTML: no script, and nothing from other hosts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from sandbox.alarms import SHORT_MINUTE
from sandbox.demo import chart, person
from sandbox.demo.beside import ASSUMPTIONS, COUNTED, LATE_AFTER, shown

Report = Mapping[str, Any]
"""What `sandbox.demo.run` writes."""

# What has to be zero, with what it is called.
_ZERO = {
    "waiting": "still on its way",
    "lost": "lost",
    "strangers": "bodies that were never sent",
    "altered": "attributes changed",
    "astray": "another end than planned",
    "unrecorded": "healed, unknown to the ledger",
}

_STYLE = """
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 1.5rem auto; padding: 0 1rem;
  background: Canvas; color: CanvasText; }
h1 { font-size: 1.6rem; margin-bottom: .2rem; } h2 { font-size: 1.15rem; margin: 1.8rem 0 .5rem; }
h1, td, th, li { overflow-wrap: anywhere; }
.says { font-size: 1.15rem; font-weight: 600; }
.good { color: #2b8a3e; color: light-dark(#2b8a3e, #69db7c); }
.wrong { color: #e03131; color: light-dark(#c92a2a, #ff8787); }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .35rem .6rem; border-bottom: 1px solid #8884;
  vertical-align: top; }
tbody th { font-weight: normal; } thead th { vertical-align: bottom; }
.n { text-align: right; font-variant-numeric: tabular-nums; }
td.n { white-space: nowrap; }
.account { width: auto; } .account :is(th, td) { padding-right: 1.5rem; }
.compare { table-layout: fixed; } .compare span { display: inline-block; width: 9.2rem; }
.compare thead th { overflow-wrap: normal; font-size: .87em; }
.compare :is(th, td) { padding: .25rem .5rem; } .compare :is(th, td):first-child { width: 46%; }
.compare :is(th, td):nth-child(2) { background: #2f9e441c; font-weight: 600; }
td:first-child.n { width: 3.5rem; }
small { font-size: .87em; opacity: .8; }
.flow { display: grid; grid-template-columns: 1fr 1.4fr 1.4fr; gap: 2.5rem; list-style: none;
  padding: 0; }
.flow > li { display: flex; flex-direction: column; gap: .5rem; position: relative; }
.flow > li + li::before { content: "→"; position: absolute; left: -1.9rem; top: 45%;
  font-size: 1.3rem; }
.box { border: 1px solid #8888; border-left: .45rem solid var(--edge, #868e96);
  border-radius: .4rem; padding: .4rem .8rem; display: flex; flex-direction: column;
  justify-content: center; }
.box b { font-size: 1.4rem; line-height: 1.3; font-variant-numeric: tabular-nums; }
pre { overflow-x: auto; border: 1px solid #8884; padding: .7rem;
  border-radius: .4rem; font-size: .87rem; line-height: 1.45; }
footer { margin-top: 2.5rem; opacity: .8; font-size: .87rem; }
@media (max-width: 40rem) {
  .flow { grid-template-columns: 1fr; gap: 2rem; }
  .flow > li + li::before { content: "↓"; left: 50%; top: -1.9rem; }
  .cards thead { position: absolute; clip-path: inset(50%); width: 1px; height: 1px;
    overflow: hidden; }
  .cards :is(tbody, tr, th) { display: block; } .cards tr { padding: .5rem 0;
    border-bottom: 1px solid #8884; }
  .cards th, .cards td { border: 0; padding: .1rem 0; }
  .cards td { display: flex; justify-content: space-between; gap: 1.5rem; text-align: right; }
  .cards td::before { content: attr(data-label); text-align: left; opacity: .8; flex: none;
    max-width: 75%; }
  .compare th:first-child { width: auto; } .compare th span { font-weight: 600; }
  .compare :is(span, small) { display: block; width: auto; }
  .compare :is(th, td):nth-child(2) { background: none; }
  .account :is(th, td) { padding: .35rem .5rem .35rem 0; }
}
"""


def write(report: Report, file: Path) -> None:
    """Write the page to *file*."""
    file.write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """The page. All texts are escaped; bodies are not in it.

    What a demo that was broken off or went wrong does not have is left out.
    """
    return "\n".join(_page(report)) + "\n"


def _page(report: Report) -> Iterator[str]:
    title = f"Deadletter: what became of {report['sent']:,} events"
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    policy = "default-src 'none'; style-src 'unsafe-inline'"
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    yield f"<title>{escape(title)}</title><style>{_STYLE}{chart.STYLE}</style></head><body><main>"
    yield f"<h1>{escape(title)}</h1>"
    yield from _verdict(report)
    yield from _over_time(report)
    yield from _beside(report.get("beside", ()))
    yield from _flow(report)
    yield from _told(report.get("timeline", ()))
    yield from _tenants(report.get("tenants", ()))
    yield from _causes(report.get("causes", ()))
    yield from _account(report)
    yield from _life(report.get("letter") or {})
    yield (
        "<footer>Written by <code>make demo</code>: the app as it is deployed, in an emulated AWS"
        " on this machine. Its settings are compressed in time; its code is the code.</footer>"
    )
    yield "</main></body></html>"


def _verdict(report: Report) -> Iterator[str]:
    wrong = {name: report[name] for name in _ZERO if report[name]}
    if wrong:
        words = "; ".join(f"{number:,} {_ZERO[name]}" for name, number in wrong.items())
        yield f'<p class="says wrong">Not well: {escape(words)}.</p>'
    else:
        yield (
            f'<p class="says good">All {report["sent"]:,} are accounted for:'
            f" {report['delivered']:,} delivered, {_parked(report):,} parked with a reason,"
            " none lost.</p>"
        )
    rang = report.get("alarms_that_rang", ())
    if rang:
        yield f"<p>An alarm rang: {escape(', '.join(rang))}.</p>"
    else:
        yield "<p>No alarm rang: no one was woken.</p>"


def _parked(report: Report) -> int:
    return sum(report["parked_by_reason"].values())


def _flow(report: Report) -> Iterator[str]:
    """Three stages; the figures of each add up to what was sent."""
    at_once = report["delivered"] - report["healed"]
    failed = report["sent"] - at_once
    held = f"failed, or not tried; {report['held']:,} waited in the waiting room"
    stages = (
        (("sent", report["sent"], "by one producer, for three tenants", "#868e96"),),
        (
            ("delivered at once", at_once, "in the first life", "#2f9e44"),
            ("not at once", failed, held, "#f08c00"),
        ),
        (
            ("healed", report["healed"], "re-driven, and delivered", "#2f9e44"),
            ("parked", _parked(report), "for a person, with the reason", "#c2255c"),
            ("still on its way", report["waiting"], "", "#1c7ed6"),
            ("lost", report["lost"], "counted, not assumed", "#e03131"),
        ),
    )
    yield "<h2>Where they went</h2>"
    yield '<ol class="flow">'
    for stage in stages:
        yield "<li>"
        for name, number, why, edge in stage:
            # It is news only if there are any.
            if name == "still on its way" and not number:
                continue
            share = f"--edge:{edge};flex:{max(number, 1)} 1 auto"
            yield f'<div class="box" style="{share}"><b>{number:,}</b>{escape(name)}'
            yield f"<small>{escape(why)}</small></div>"
        yield "</li>"
    yield "</ol>"


def _over_time(report: Report) -> Iterator[str]:
    samples = report.get("samples", ())
    if len(samples) < 2:
        return
    yield "<h2>Over time</h2>"
    names = {each["name"]: f"{each['name']} ({each['role']})" for each in report["tenants"]}
    yield from chart.chart(samples, report.get("outage") or {}, names)


def _told(timeline: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not timeline:
        return
    yield "<h2>As it happened</h2><table><tbody>"
    for moment in timeline:
        yield f'<tr><td class="n">{moment["at"]:.0f} s</td><td>{escape(moment["text"])}</td></tr>'
    yield "</tbody></table>"


def _tenants(tenants: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not tenants:
        return
    yield "<h2>Tenants: a circuit for each endpoint, so the healthy one goes on</h2>"
    heads = ("Tenant", "Circuit at the end", "#Delivered", "#Parked", "Its endpoint answered")
    rows = [
        (
            f"{escape(each['name'])} <small>({escape(each['role'])})</small>",
            escape(each["circuit"]),
            f"{each['delivered']:,}",
            f"{each['parked']:,}",
            ", ".join(
                f"{escape(str(status))}: {number:,}" for status, number in each["answers"].items()
            ),
        )
        for each in tenants
    ]
    yield from _table(heads, rows)


def _causes(causes: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not causes:
        return
    yield "<h2>Why they failed</h2>"
    heads = ("Cause, by the ledger", "Tenant", "#Failures", "What became of the messages")
    rows = [
        (
            escape(each["cause"]),
            escape(each["tenant"]),
            f"{each['failures']:,}",
            escape(each["ended"]),
        )
        for each in causes
    ]
    yield from _table(heads, rows)


def _account(report: Report) -> Iterator[str]:
    yield '<h2>The account</h2><table class="account"><tbody>'
    rows: list[tuple[str, int, str]] = [
        ("sent", report["sent"], ""),
        ("delivered", report["delivered"], "their endpoint took them"),
        ("of them healed", report["healed"], "failed at first, taken after a re-drive"),
        ("of them recovered", report["recovered"], "failed at first, by the app's own ledger"),
        ("through the waiting room", report["held"], "seen in it, by the demo's looks"),
        *((f"parked as {why}", number, "") for why, number in report["parked_by_reason"].items()),
        *((name, report[key], "has to be zero") for key, name in _ZERO.items()),
        ("duplicates", report["duplicates"], "taken twice: SQS delivers at least once"),
    ]
    for name, number, meaning in rows:
        wrong = ' class="wrong"' if number and name in _ZERO.values() else ""
        yield f'<tr{wrong}><th scope="row">{escape(name)}</th><td class="n">{number:,}</td>'
        yield f"<td><small>{escape(meaning)}</small></td></tr>"
    yield "</tbody></table>"


def _life(letter: Mapping[str, str]) -> Iterator[str]:
    if not letter:
        return
    yield "<h2>One message's life</h2>"
    told = f"$ {letter['command']}\n{letter['output']}"
    yield f'<pre tabindex="0">{escape(told)}</pre>'


def _beside(ways: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if not ways:
        return
    yield "<h2>Who had to be awake: the same events, otherwise</h2>"
    heads = ("Counted", *(f"#{way['system']} ({way['how']})" for way in ways))
    rows = [
        (
            f"<span>{escape(title)}</span> <small>{escape(meaning)}</small>",
            *(escape(shown(way[name])) for way in ways),
        )
        for name, (title, meaning) in COUNTED.items()
    ]
    yield from _table(heads, rows, "cards compare")
    late = SHORT_MINUTE * LATE_AFTER
    yield (
        "<p>The ways beside Deadletter are <strong>modelled, not run</strong>: a deterministic"
        f" simulation of the same events, with an outage as long as this run's. {person.ASSUMED}"
        f" A minute of this table is {SHORT_MINUTE:.0f} seconds of the run, as for its alarms, so"
        f" {LATE_AFTER} minutes are {late:.0f} seconds; <code>docs/scenarios.md</code> measures"
        " outages with the settings of every day.</p>"
    )
    yield "<ul>"
    for way in ways:
        assumed = ASSUMPTIONS.get(way["system"])
        more = f" As modelled: {escape(assumed)}" if assumed else ""
        did = escape("; ".join(way["did"]) or "nothing")
        yield f"<li><b>{escape(way['system'])}</b>: {escape(way['note'])}.<br>"
        yield f"<small>What a person did: {did}.{more}</small></li>"
    yield "</ul>"


def _table(
    heads: Sequence[str], rows: Iterable[Sequence[str]], classes: str = "cards"
) -> Iterator[str]:
    """A table that is a list of cards on a narrow page.

    The heads of numbers begin with a #. Heads are escaped here, cells by the caller.
    """
    kinds = [' class="n"' if head.startswith("#") else "" for head in heads]
    labels = [escape(head.removeprefix("#")) for head in heads]
    yield f'<table class="{classes}"><thead><tr>'
    for kind, label in zip(kinds, labels, strict=True):
        name, how, rest = label.partition(" (")
        yield f'<th scope="col"{kind}>{name}{how and f" <small>({rest}</small>"}</th>'
    yield "</tr></thead><tbody>"
    for first, *others in rows:
        yield f'<tr><th scope="row">{first}</th>'
        for kind, label, cell in zip(kinds[1:], labels[1:], others, strict=True):
            yield f'<td{kind} data-label="{label}">{cell}</td>'
        yield "</tr>"
    yield "</tbody></table>"
