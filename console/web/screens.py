"""The five screens: each reads what its verb answers, and shows the command that does the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from threading import Lock
from typing import Any
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from ..operations import audit_trail, circuits, groups, rules, show, status
from ..operations import list as listing
from ..operations.errors import Cause, Denied, Problem, explain
from ..operations.grouping import By
from ..operations.replay_report import MEANING
from ..operations.replay_runs import list_runs
from ..operations.session import Session
from ..operations.verbs import typed_line
from .acts import ACTS, Plans, asked_of, facts_of, runs_of
from .guard import PageGuard
from .page import render

SHARED_SECONDS = 5.0
"""How long all tabs share one look at the status."""

ROWS = 100
"""Messages on one page of Find."""

# What the box of Find offers.
_PLACES = ("dlq", "waiting", "parked", "discarded", "main", "time")

_STATUS = {Cause.ABSENT: 404, Cause.INPUT: 400, Cause.BUG: 500}


class Screens:
    """The routes of the page. With `acts` a person may change something."""

    def __init__(self, session: Session, guard: PageGuard, *, acts: bool) -> None:
        self._session, self._guard = session, guard
        self._plans = Plans(session) if acts else None
        self._lock = Lock()
        self._now: tuple[float, status.AppStatus] | None = None

    def routes(self) -> list[Route]:
        """All that can be asked for; what changes something is there only with `acts`."""
        reads: Mapping[str, Callable[[Request], Response]] = {
            "/": self.now,
            "/causes": self.causes,
            "/causes/{id}": self.cause,
            "/find": self.find,
            "/m/{id:path}": self.message,
            "/runs": self.runs,
            "/runs/{id}": self.run,
        }
        found = [Route(path, self._safe(read), methods=["GET"]) for path, read in reads.items()]
        found.append(Route("/m/{id:path}", self._safe(self.body), methods=["POST"]))
        found.append(Route("/find", self._safe(self.look), methods=["POST"]))
        if self._plans is not None:
            found += [
                Route("/form/{act}", self._safe(self.form), methods=["GET"]),
                Route("/plan/{act}", self._safe(self.plan), methods=["POST"]),
                Route("/do/{plan}", self._safe(self.do), methods=["POST"]),
            ]
        return found

    # What is read.

    def read_now(self) -> status.AppStatus:
        """The status with the drawing, which all tabs share for a while."""
        with self._lock:
            at = self._session.clock()
            if self._now is None or not 0 <= at - self._now[0] < SHARED_SECONDS:
                answer = status.answered(self._session, status.StatusRequest(flow=True))
                self._now = self._session.clock(), answer
            return self._now[1]

    def now(self, request: Request) -> Response:
        return self._page(request, "now.html", "dlq status --flow", self.read_now())

    def causes(self, request: Request) -> Response:
        names = [each.name for each in self._session.app().pipelines]
        asked = groups.GroupsRequest(
            # One pipeline has its index of causes: the first, until a person chooses.
            pipeline=request.query_params.get("pipeline") or next(iter(names), None),
            by=_by(request.query_params.get("by") or By.CAUSE),
        )
        answer = groups.read(self._session, asked)
        command = typed_line("groups", groups.VERB, asked)
        return self._page(request, "causes.html", command, answer, names=names, bys=list(By))

    def cause(self, request: Request) -> Response:
        id_ = request.path_params["id"]
        asked = show.ShowRequest(name=f"cause:{id_}")
        answer, command = show.read(self._session, asked), typed_line("show", show.VERB, asked)
        few = listing.ListRequest(terms=(f"cause={id_}",), limit=5)
        samples = listing.read(self._session, few)
        return self._page(request, "cause.html", command, answer, samples=samples)

    def find(self, request: Request) -> Response:
        asked = self._choice(request)
        if len(asked.ids) == 1 and not (asked.terms or asked.places or asked.pipelines):
            [id_] = asked.ids
            # What is over, too, which a search does not look through.
            with suppress(Problem):
                show.read(self._session, show.ShowRequest(name=f"message:{id_}"))
                return RedirectResponse(f"{self._guard.root}m/{quote(id_)}", status_code=303)
        return self._found(request, look=False)

    def look(self, request: Request) -> Response:
        """The same, with queues received from: SQS counts it, so only a button asks for it."""
        self._own_form(request)
        return self._found(request, look=True)

    def _found(self, request: Request, *, look: bool) -> Response:
        asked = self._choice(request)
        given = request.query_params.get("page", "")
        number = max(1, int(given)) if given.isascii() and given.isdigit() else 1
        asked = replace(asked, look=look, limit=min(10_000, ROWS * number))
        is_asked = bool(asked.ids or asked.terms or asked.places)
        answer = listing.read(self._session, asked) if is_asked or look else None
        command = typed_line("list", listing.VERB, replace(asked, limit=20))
        rows = answer.messages[ROWS * (number - 1) :] if answer else ()
        return self._page(
            request, "find.html", command, answer, asked=asked, rows=rows, number=number,
            places=_PLACES,
        )  # fmt: skip

    def _choice(self, request: Request) -> listing.ListRequest:
        """What the box and the chips say: words with an operator are terms, others ids."""
        params = request.query_params
        words = params.get("q", "").split()
        terms = [word for word in words if any(sign in word for sign in "=<>~")]
        ids = [word for word in words if word not in terms]
        return listing.ListRequest(
            ids=(*params.getlist("id"), *ids),
            pipelines=tuple(params.getlist("p")),
            places=tuple(filter(None, params.getlist("in"))),
            terms=(*params.getlist("f"), *terms),
        )

    def message(self, request: Request) -> Response:
        return self._message(request, body=False)

    def body(self, request: Request) -> Response:
        """The message with its body: on a click, and by a person who may read it."""
        form = self._own_form(request)
        return self._message(request, body=True, look=bool(form.get("look")))

    def _message(self, request: Request, *, body: bool, look: bool = False) -> Response:
        name = request.path_params["id"]
        asked = show.ShowRequest(
            name=f"message:{name}",
            pipeline=request.query_params.get("p") or None,
            body=body,
            look=look,
        )
        answer = show.read(self._session, asked)
        command = typed_line("show", show.VERB, replace(asked, name=name))
        return self._page(request, "message.html", command, answer)

    def runs(self, request: Request) -> Response:
        answer = list_runs(self._session, ())
        return self._page(
            request,
            "runs.html",
            "dlq run list",
            answer,
            rules=rules.list_rules(self._session, rules.RulesRequest()),
            circuits=circuits.list_circuits(self._session, ()),
            trail=audit_trail.read(self._session, audit_trail.AuditRequest(limit=20)),
        )

    def run(self, request: Request) -> Response:
        name = f"run:{request.path_params['id']}"
        asked = show.ShowRequest(name=name)
        answer, command = show.read(self._session, asked), typed_line("show", show.VERB, asked)
        edit = self._plans.edit_of(answer.name) if self._plans is not None else ""
        return self._page(request, "run.html", command, answer, edit=edit, meaning=MEANING)

    # What is changed.

    def form(self, request: Request) -> Response:
        words = self._act(request)
        params = request.query_params
        given = {name: "\n".join(params.getlist(name)) for name in params}
        return self._page(
            request, "form.html", f"dlq {words} --help", None, words=words,
            fields=asked_of(ACTS[words]), given=given, about=ACTS[words].help,
        )  # fmt: skip

    def plan(self, request: Request) -> Response:
        assert self._plans is not None
        form = self._own_form(request)
        words = self._act(request)
        name, kept = self._plans.prepare(words, form)
        command = typed_line(words, kept.verb, kept.request)
        fields = [each for each in form.multi_items() if each[0] not in ("form", "document")]
        return self._page(request, "plan.html", command, None, name=name, kept=kept, fields=fields)

    def do(self, request: Request) -> Response:
        assert self._plans is not None
        kept, answer = self._plans.commit(request.path_params["plan"], self._own_form(request))
        begun = runs_of(answer)
        if len(begun) == 1:
            return RedirectResponse(f"{self._guard.root}runs/{begun[0]}", status_code=303)
        command = typed_line(kept.words, kept.verb, kept.request)
        facts = facts_of(answer)
        return self._page(request, "done.html", command, answer, kept=kept, facts=facts, runs=begun)

    def _act(self, request: Request) -> str:
        words = str(request.path_params["act"]).replace("-", " ")
        if words not in ACTS:
            raise Problem(f"{words!r} is nothing that this page can do.", Cause.ABSENT)
        return words

    # How all are shown.

    def _own_form(self, request: Request) -> Any:
        form = request.state.form
        if not self._guard.is_own_form(form.get("form")):
            raise Denied("Another page has sent this form.", Cause.FAILED)
        return form

    def _page(
        self, request: Request, template: str, command: str, answer: Any, /, **data: Any
    ) -> HTMLResponse:
        text = render(
            template,
            root=self._guard.root,
            path=request.url.path.removeprefix(self._guard.root),
            query=request.url.query,
            form_word=self._guard.form,
            acts=self._plans is not None,
            place=self._session.place,
            command=command,
            answer=answer,
            at=self._session.now,
            **data,
        )
        return HTMLResponse(text, status_code=data.get("status", 200))

    def _safe(self, read: Callable[[Request], Response]) -> Callable[[Request], Any]:
        """The screen, with a sentence where it can't be shown. Forms are read first."""

        @wraps(read)
        def shown(request: Request) -> Response:
            try:
                return read(request)
            except Exception as error:
                # Only its type: the text of an error may quote a message.
                bug = f"The page itself failed ({type(error).__name__}), which is a bug: report it."
                problem = explain(error) or Problem(bug, Cause.BUG)
                return self._page(
                    request, "problem.html", "", None, says=problem.says,
                    status=403 if isinstance(problem, Denied) else _STATUS.get(problem.cause, 502),
                )  # fmt: skip

        async def endpoint(request: Request) -> Response:
            from starlette.concurrency import run_in_threadpool

            if request.method == "POST":
                request.state.form = await request.form()
            return await run_in_threadpool(shown, request)

        return endpoint


def _by(text: str) -> By:
    if text not in list(By):
        raise Problem(f"{text!r} is nothing to group by: {', '.join(By)}.", Cause.INPUT)
    return By(text)
