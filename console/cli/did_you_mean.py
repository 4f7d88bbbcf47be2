"""What a person meant by a word that is no command: other tools' words, and slips.

A word that reads is never answered with a command that changes something, and a word that
sends never with one that removes. Nothing is executed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum

from .commands import BODIES, READER, policies_of


class Effect(IntEnum):
    """What a word or a command does, the harmless first."""

    READS = 0
    CHANGES = 1
    REMOVES = 2


@dataclass(frozen=True, slots=True)
class Meaning:
    """Words of one meaning, and the commands for it, the likeliest first."""

    effect: Effect
    words: str
    commands: tuple[str, ...]


MEANINGS = (
    Meaning(
        Effect.CHANGES,
        (
            "release recall resend requeue reprocess redeliver resubmit republish reinject send"
            " move rerun"
        ),
        ("retry ID",),
    ),
    Meaning(Effect.CHANGES, "start begin launch", ("retry --auto", "run resume RUN")),
    Meaning(
        Effect.READS,
        "ls messages letters browse peek",
        (
            *("list", "list --in parked --look", "list --in waiting", "run list"),
            *("circuit list", "endpoint list", "rules list"),
        ),
    ),
    Meaning(
        Effect.READS,
        "show explain get view describe inspect open details info read cat why",
        ("show ANYTHING", "groups", "list --in waiting", "endpoint list"),
    ),
    Meaning(Effect.READS, "runs jobs executions", ("run list",)),
    Meaning(Effect.READS, "find grep query filter search locate lookup", ("list -f text~TEXT",)),
    Meaning(Effect.READS, "logs log trace", ("show ID --logs",)),
    Meaning(
        Effect.READS,
        "watch tail follow monitor top",
        ("status --watch", "show RUN --watch", "show ID --logs"),
    ),
    Meaning(
        Effect.READS,
        "state depth count stats summary alarms queues",
        ("status", "groups", "circuit list", "run list", "rules list"),
    ),
    Meaning(Effect.READS, "errors failures failed", ("groups", "list --in parked --look")),
    Meaning(Effect.READS, "cause causes cause-list cause-show", ("groups", "show cause:ID")),
    Meaning(Effect.READS, "parked waiting", ("list --in parked --look", "list --in waiting")),
    Meaning(Effect.READS, "poison", ("list --in parked -f reason=POISON --look", "groups")),
    Meaning(Effect.READS, "history", ("show ANYTHING", "audit")),
    Meaning(Effect.READS, "changes who", ("audit",)),
    Meaning(
        Effect.READS,
        "health check verify validate diagnose",
        ("doctor", "status --check", "endpoint add TENANT --dry-run"),
    ),
    Meaning(Effect.READS, "config settings policy", ("show PIPELINE", "help environment")),
    Meaning(
        Effect.READS, "export download dump save", ("list --look --out FILE", "rules list --yaml")
    ),
    Meaning(Effect.READS, "lint", ("rules test --file FILE",)),
    Meaning(Effect.READS, "simulate preview plan", ("retry ID --dry-run", "rules test RULE_ID")),
    Meaning(Effect.READS, "report results", ("show RUN", "show PIPELINE")),
    Meaning(Effect.READS, "observe observed", ("status", "show PIPELINE")),
    Meaning(Effect.READS, "draw drawing diagram topology", ("status --flow",)),
    Meaning(Effect.READS, "version", ("--version",)),
    Meaning(Effect.READS, "usage man commands", ("--help", "help")),
    Meaning(Effect.CHANGES, "install setup configure adopt", ("init",)),
    Meaning(
        Effect.CHANGES,
        "edit fix patch modify amend transform",
        (
            *("retry ID --edit", "rules add RULE_ID --action ACTION --replace"),
            "endpoint add TENANT --url URL",
        ),
    ),
    Meaning(Effect.CHANGES, "undelete undo undiscard", ("restore RUN", "rules undo RULE_ID")),
    Meaning(
        Effect.CHANGES,
        "quarantine block ban isolate park",
        tuple(f"rules add RULE_ID --action QUARANTINE -f {key}=ID" for key in ("tenant", "cause")),
    ),
    Meaning(Effect.CHANGES, "cause-park", ("rules add RULE_ID --action QUARANTINE -f cause=ID",)),
    Meaning(Effect.CHANGES, "cause-retry cause-mend", ("retry -f cause=ID",)),
    Meaning(Effect.CHANGES, "import", ("rules apply FILE",)),
    Meaning(
        Effect.CHANGES,
        "throttle slow limit",
        ("rules add RULE_ID --action THROTTLE=5 -f tenant=ID",),
    ),
    Meaning(
        Effect.CHANGES,
        "pause stop halt suspend freeze hold disable",
        (
            *("circuit open", "run hold RUN", "rules add RULE_ID --action HOLD"),
            *("endpoint disable TENANT", "rules disable RULE_ID"),
        ),
    ),
    Meaning(
        Effect.CHANGES,
        "resume unpause continue enable auto",
        (
            *("circuit release", "run resume RUN", "rules undo RULE_ID"),
            *("rules add RULE_ID --action ACTION --replace", "endpoint add TENANT"),
        ),
    ),
    Meaning(
        Effect.CHANGES,
        "create new add",
        ("rules add RULE_ID --action ACTION", "endpoint add TENANT --url URL", "init"),
    ),
    Meaning(Effect.CHANGES, "acknowledge ack silence snooze", ("mute --for 2h",)),
    Meaning(Effect.CHANGES, "unmute", ("mute --end",)),
    Meaning(Effect.CHANGES, "page pager", ("doctor --send-page",)),
    Meaning(Effect.CHANGES, "approve", ("run approve RUN",)),
    Meaning(
        Effect.REMOVES,
        "delete del drop purge rm trash clear flush empty",
        ("discard ID", "rules remove RULE_ID"),
    ),
    Meaning(Effect.REMOVES, "remove", ("rules remove RULE_ID", "discard ID")),
    Meaning(Effect.REMOVES, "erase wipe gdpr", ("forget ID --dry-run",)),
    Meaning(Effect.REMOVES, "cancel abort kill", ("run abort RUN",)),
    Meaning(Effect.REMOVES, "refuse deny decline", ("run reject RUN",)),
    Meaning(
        Effect.REMOVES, "uninstall destroy teardown decommission retire", ("doctor --removal",)
    ),
)
"""What people type, and what they mean by it."""

SAYS: Mapping[str, str] = {
    "--help": "all commands",
    "--version": "the version that is installed",
    "audit": "who changed what, when and why",
    "circuit release": "end what a person said about a circuit",
    "circuit list": "which dependencies are down",
    "circuit open": "stop all sending, live traffic too",
    "discard ID": "throw it away; restorable for 90 days",
    "doctor": "check the queues and what is around them",
    "doctor --removal": "what is left of a pipeline, and how to remove it",
    "doctor --send-page": "publish a test page: do alarms arrive?",
    "endpoint add TENANT --url URL": "add a webhook endpoint",
    "endpoint disable TENANT": "post nothing to it",
    "endpoint add TENANT": "check it, and post to it again",
    "endpoint add TENANT --dry-run": "check where its events go",
    "endpoint list": "the webhook endpoints",
    "forget ID --dry-run": "what is kept of one person's message",
    "groups": "what fails, and why",
    "help": "exit statuses, environment, JSON, policies",
    "help environment": "the variables that it reads",
    "init": "list the account's DLQs, and add some",
    "list": "which messages there are, and where",
    "list --in parked --look": "messages that automation gave up",
    "list --in parked -f reason=POISON --look": "messages that never succeed",
    "list --in waiting": "messages that wait, and for what",
    "list --look --out FILE": "copy messages into a file",
    "list -f text~TEXT": "find messages by text, field, tenant or ID",
    "mute --end": "end a mute",
    "mute --for 2h": "mute the alarms for a while",
    "run abort RUN": "end a run; what is left is parked",
    "run approve RUN": "let a run send",
    "run hold RUN": "stop a run, for now",
    "run list": "the runs",
    "run reject RUN": "refuse a run; its messages are parked",
    "run resume RUN": "go on with a held run",
    "show RUN --watch": "follow one run",
    "retry --auto": "retry what is due, as the schedule does",
    "retry -f cause=ID": "send those of a cause again, and end its hold",
    "retry ID": "send a message again",
    "retry ID --dry-run": "what a retry would do; sends nothing",
    "retry ID --edit": "edit a message and send it",
    "restore RUN": "bring what a run has discarded back",
    "rules add RULE_ID --action ACTION": "add a rule",
    "rules add RULE_ID --action ACTION --replace": "change a rule",
    "rules add RULE_ID --action HOLD": "hold messages by a rule",
    "rules add RULE_ID --action QUARANTINE -f cause=ID": "a cause's",
    "rules add RULE_ID --action QUARANTINE -f tenant=ID": "a tenant's",
    "rules add RULE_ID --action THROTTLE=5 -f tenant=ID": "slow them down",
    "rules apply FILE": "write a file of rules; it says what changes",
    "rules disable RULE_ID": "switch a rule off",
    "rules list": "the rules, and what they match",
    "rules list --yaml": "all rules, as a file",
    "rules remove RULE_ID": "remove a rule; rules undo brings it back",
    "rules test --file FILE": "what is wrong with a file of rules",
    "rules test RULE_ID": "what a rule matches",
    "rules undo RULE_ID": "take its last change back",
    "show ANYTHING": "one message, run, rule, circuit or pipeline",
    "show cause:ID": "what fails for a cause, and who ended its hold",
    "show ID --logs": "what the consumer logged about one message",
    "show PIPELINE": "the settings in force, and what observe has seen",
    "show RUN": "what became of a run's messages",
    "status": "what needs attention, how full each queue is",
    "status --check": "exit with 1 if something needs attention",
    "status --flow": "this deployment as nodes and edges, to be drawn",
    "status --watch": "follow all pipelines",
}
"""Each command of MEANINGS in a few words."""

REMOVALS = frozenset(
    {"discard", "doctor --removal", "forget", "run abort", "run reject", "rules remove"}
)

OPTIONS = (
    ("--reason", "--why", "--because", "--comment"),
    ("--json", "--output", "--format"),
    ("--show-body", "--body", "--bodies"),
    ("--limit", "--max", "--count"),
    ("--expires", "--until-closed", "--until"),
)
"""Options of one meaning: a command that lacks one has another of them."""

# Commands for a word outside its group: more is a list, and that is `dlq --help`.
_AT_MOST = 3

_BY_WORD = {word: meaning for meaning in MEANINGS for word in meaning.words.split()}


def answer(
    typed: str, group: str, own: Iterable[str], whole: Callable[[str], str], then: str = ""
) -> str:
    """What to say of a word that is no command of `group` ("" for `dlq` itself).

    `own` are the group's commands; `whole` adds to one of them what has to be typed behind it.
    `then` is the next word: there are groups no more, of which it was a command.
    """
    says = f"No such command {typed!r}."
    found = [
        command if command in SAYS else f"{group} {whole(command.split()[-1])}".strip()
        for command in meant(typed, group, own, then)
    ]
    if not found:
        return says
    width = max(map(len, found))
    rows = (
        f"  dlq {command:{width}}  # {SAYS[command]}" if command in SAYS else f"  dlq {command}"
        for command in found
    )
    return "\n".join([f"{says} Did you mean:", *rows])


def meant(typed: str, group: str, own: Iterable[str], then: str = "") -> Sequence[str]:
    """The commands that a person may have meant: lines of SAYS, or names of the group's own."""
    word = typed.lower()
    for phrase in (f"{word}-{then.lower()}", word):
        if phrase in _BY_WORD:
            return _for(_BY_WORD[phrase], group)
    names = {name: f"{group} {name}".strip() for name in own}
    here = {name: Meaning(effect_of(full), name, (full,)) for name, full in names.items()}
    known = {**_BY_WORD, **here}
    slips, words = nearest(word, known)
    meanings = [known[other] for other in words]
    # The most harmless of what is equally near says how far the answer may go. A removal is
    # only for one slip in its very word.
    limit = min([each.effect for each in meanings], default=Effect.READS)
    limit = min(limit, Effect.CHANGES) if slips > 1 else limit
    for among in ([here[word] for word in words if word in here], meanings):
        found = dict.fromkeys(command for each in among for command in _for(each, group))
        if allowed := [command for command in found if effect_of(command) <= limit]:
            return allowed[:_AT_MOST]
    return ()


def _for(meaning: Meaning, group: str) -> Sequence[str]:
    """Those of the group itself, where it has some; else the likeliest of all."""
    here = [command for command in meaning.commands if command.startswith(f"{group} ")]
    return here or meaning.commands[:_AT_MOST]


def effect_of(command: str) -> Effect:
    """What a command does, by its words after `dlq`. A group alone only prints its help."""
    if command.endswith("--dry-run"):
        return Effect.READS
    words = [word for word in command.split() if word.isalpha() and word.islower()]
    names = {" ".join(words[:2]), *words[:1], command}
    if names & REMOVALS:
        return Effect.REMOVES
    needed = {policy for name in names for policy in policies_of(name)}
    return Effect.CHANGES if needed - {READER, BODIES} or "init" in names else Effect.READS


def options(typed: str, own: Iterable[str]) -> Sequence[str]:
    """The options of a command that a person may have meant by one that it lacks."""
    own = list(own)
    same = [option for group in OPTIONS if typed in group for option in group if option in own]
    return same or nearest(typed, own)[1]


def nearest(word: str, known: Iterable[str]) -> tuple[int, Sequence[str]]:
    """The fewest slips from `word` to a known one, and those so near: none that is far."""
    letters = len(word.lstrip("-"))
    limit = 0 if letters < 2 else 1 if letters < 6 else 2
    slips = {other: _slips(word, other) for other in known if abs(len(other) - len(word)) <= limit}
    least = min(slips.values(), default=0)
    return least, [other for other in slips if slips[other] == least <= limit]


def _slips(typed: str, meant: str) -> int:
    """Letters added, left out, mistaken, or swapped with their neighbour."""
    above: list[int] = []
    row = list(range(len(meant) + 1))
    for i, letter in enumerate(typed, 1):
        above, before, row = row, above, [i]
        for j, wanted in enumerate(meant, 1):
            best = min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and letter == meant[j - 2] and wanted == typed[i - 2]:
                best = min(best, before[j - 2] + 1)
            row.append(best)
    return row[-1]
