"""`dlq endpoint`: where tenants want their events, and which endpoints get none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import ENDPOINTS, EVERY_PIPELINE
from deadletter.webhook.endpoint import (
    DEFAULT_ENDPOINT,
    PAUSES_END,
    BadEndpoint,
    Endpoint,
    SecretUnusable,
    edit_facts,
    read_row,
    refuse_secret_name,
)
from deadletter.webhook.url_guard import UrlRefused, public_part, read_url

from . import endpoint_check, item
from .app import App
from .audit import IntendedChange, recorded
from .endpoint_check import EVENT_TYPE, EndpointCheck, UrlPolicy
from .errors import Cause, Problem, aws_errors
from .session import Answer, Session
from .verbs import Asked, Verb
from .words import moment

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class ListedEndpoint:
    """An endpoint and its standing."""

    tenant: Annotated[str, "the tenant"]
    endpoint: Annotated[str, "the endpoint's name"]
    url: Annotated[str, "scheme, host and port of its URL, or `?` for a refused URL"]
    standing: Annotated[str, "`enabled`, `disabled`, `throttled` or `invalid`"]
    because: Annotated[str, "why it is not enabled, if that is known; or which pause is ignored"]
    disabled_at: Annotated[datetime | None, "when the dispatcher disabled it"]
    throttled_until: Annotated[datetime | None, "until when nothing is posted to it"]
    secrets: Annotated[Sequence[str], "names of the secrets that sign"]


@dataclass(frozen=True, slots=True)
class EndpointList(Answer):
    """What `dlq endpoint list` answers."""

    endpoints: Annotated[Sequence[ListedEndpoint], "all endpoints, by tenant and name"]


@dataclass(frozen=True, slots=True)
class EndpointChange(Answer):
    """What `dlq endpoint add` and `disable` answer."""

    endpoint: Annotated[ListedEndpoint, "the endpoint as it stands now"]
    check: Annotated[EndpointCheck | None, "what it answered before that; null if disabled"]
    complaints: Annotated[Sequence[str], "why events would not arrive"]


# The table.


@dataclass(frozen=True, slots=True)
class EndpointRow:
    """A row: its columns as JSON-ready data, and the endpoint or why the row is invalid."""

    columns: Mapping[str, Any]
    endpoint: Endpoint | None
    why: str = ""


class EndpointTable:
    """The endpoints of an app."""

    def __init__(self, dynamodb: DynamoDBClient, name: str) -> None:
        from deadletter.aws.dynamodb import DynamoDBTable

        self._table = DynamoDBTable(dynamodb, name, ENDPOINTS)

    def read(self) -> Sequence[EndpointRow]:
        """All endpoints, by tenant and name."""
        with aws_errors():
            rows = [*map(_row, self._table.scan(lagging=True))]
        return sorted(rows, key=lambda row: (row.columns["tenant"], row.columns["endpoint"]))

    def find(self, endpoint_id: str) -> EndpointRow | None:
        """An endpoint; None if it is missing."""
        with aws_errors():
            found = self._table.get(_place(endpoint_id))
        return None if found is None else _row(found)

    def add(self, endpoint_id: str, columns: Mapping[str, Any]) -> None:
        """Write a new endpoint; Problem if it exists."""
        from deadletter.aws.table import absent

        tenant, endpoint = _place(endpoint_id)
        row = {ENDPOINTS.partition: tenant, ENDPOINTS.sort: endpoint, **item.exact(columns)}
        with _or_else(f"There is an endpoint {endpoint_id} since this moment: try again."):
            self._table.put(row, absent(ENDPOINTS.partition))

    def update(
        self, endpoint_id: str, columns: Mapping[str, Any], removed: Sequence[str] = ()
    ) -> None:
        """Change these columns of an endpoint; Problem if it is missing."""
        from deadletter.aws.table import present

        with _or_else(f"The endpoint {endpoint_id} is gone: see\ndlq endpoint list"):
            self._table.change(
                _place(endpoint_id),
                item.exact(columns),
                removes=removed,
                when=present(ENDPOINTS.partition),
            )


@contextmanager
def _or_else(says: str) -> Iterator[None]:
    """A Problem that says this if the row is not as a write wants it."""
    from deadletter.aws.errors import Conflict

    try:
        with aws_errors():
            yield
    except Conflict as conflict:
        raise Problem(says, Cause.FAILED) from conflict


def _row(found: Mapping[str, Any]) -> EndpointRow:
    columns = item.jsonable(dict(found))
    try:
        return EndpointRow(columns, read_row(columns))
    except BadEndpoint as error:
        return EndpointRow(columns, None, str(error))


def _place(endpoint_id: str) -> tuple[str, str]:
    """Tenant and endpoint of "TENANT" or "TENANT/ENDPOINT"."""
    tenant, _, endpoint = endpoint_id.partition("/")
    if not tenant:
        raise Problem("Name the endpoint as TENANT or TENANT/ENDPOINT.", Cause.INPUT)
    return tenant, endpoint or DEFAULT_ENDPOINT


def target(endpoint_id: str) -> str:
    """An endpoint as the audit table names it."""
    return f"endpoint {'/'.join(_place(endpoint_id))}"


def listed(row: EndpointRow, now: datetime) -> ListedEndpoint:
    """An endpoint as the dispatcher sees it now."""
    endpoint = row.endpoint
    until = endpoint.throttled_until if endpoint else 0.0
    if endpoint is None:
        standing, because = "invalid", row.why
    elif not endpoint.enabled:
        standing, because = "disabled", endpoint.disabled_because
    elif until > now.timestamp() + PAUSES_END:
        standing, because = "enabled", "its throttled_until is beyond any pause, and is ignored"
    elif until > now.timestamp():
        standing, because = "throttled", f"it answered {endpoint.throttled_by}"
    else:
        standing, because = "enabled", ""
    return ListedEndpoint(
        tenant=str(row.columns["tenant"]),
        endpoint=str(row.columns["endpoint"]),
        url=public_part(endpoint.url) if endpoint else "?",
        standing=standing,
        because=because,
        disabled_at=moment(row.columns.get("disabled_at")) if standing == "disabled" else None,
        throttled_until=moment(until) if standing == "throttled" else None,
        secrets=endpoint.secrets if endpoint else (),
    )


# The verbs.

EndpointId = Annotated[
    str,
    Asked(
        f"The tenant, and its endpoint if that is not {DEFAULT_ENDPOINT!r}.",
        metavar="TENANT[/ENDPOINT]",
    ),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointsRequest:
    """List the endpoints of all tenants, and why an endpoint gets nothing.

    Only scheme, host and port of a URL are shown: its path may be a secret.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class EndpointRequest:
    """Add an endpoint of a tenant, or enable it again; it is checked first.

    The check is a request from here, through the dispatcher's own rules for URLs: it shows
    the host's addresses, the TLS certificate and its end, and the status. A HEAD has no effect,
    and any answer to it shows that a server is there; only --post shows the answer to a
    message. With --dry-run the endpoint is checked, and not changed.

    Without --url, an endpoint that is there is enabled, and its pause ends. Messages that
    failed meanwhile come back by themselves if they have attempts left; the others are parked.
    Without a secret nothing is posted, except to this machine in a sandbox.

    The exit status is 1 if it was added although events would not arrive: no answer, a status
    of 410, 429 or 5xx, or a certificate that ends within 14 days.
    """

    endpoint: EndpointId
    url: Annotated[
        str | None, Asked("Where to post: https. Needed for a new one.", ("--url",), "URL")
    ] = None
    secrets: Annotated[
        tuple[str, ...],
        Asked(
            "Name of a secret that signs, <app>/webhooks/...; repeatable.", ("--secret",), "NAME"
        ),
    ] = ()
    post: Annotated[
        bool, Asked(f"First POST a signed test message ({EVENT_TYPE}).", ("--post",))
    ] = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DisableRequest:
    """Disable an endpoint, within seconds: nothing is posted to it.

    Its messages fail like any other: they are tried again, and are parked if the endpoint stays
    disabled.
    """

    endpoint: EndpointId


@dataclass(frozen=True, slots=True)
class EndpointPlan:
    """An endpoint that a person is about to change, as it was read.

    row      its row; None for a new one
    after    what it is to be
    changed  the columns that are written, and `ended` are removed
    check    what it has answered to a HEAD; None if it is to be disabled
    post     whether a test message goes first
    """

    id: str
    app: App
    row: EndpointRow | None
    after: Endpoint
    changed: Mapping[str, Any]
    ended: Sequence[str] = ()
    check: EndpointCheck | None = None
    post: bool = False


def _list(session: Session, _: EndpointsRequest) -> EndpointList:
    rows = EndpointTable(session.aws.dynamodb, session.app().endpoints_table).read()
    found = [listed(row, session.now) for row in rows]
    return EndpointList(**session.place, endpoints=found)


def _to_add(session: Session, request: EndpointRequest) -> EndpointPlan:
    id_, app = request.endpoint, session.app()
    tenant, name = _place(id_)
    row = EndpointTable(session.aws.dynamodb, app.endpoints_table).find(id_)
    if row is None and request.url is None:
        raise Problem(f"{_absent(id_)} To add it, name its --url.", Cause.ABSENT)
    before = None if row is None or row.endpoint is None else row.endpoint
    if row is not None and before is None and (request.url is None or not request.secrets):
        raise Problem(
            f"The row of {id_} is invalid: {row.why}. Give --url and --secret to replace it.",
            Cause.FAILED,
        )
    policy = url_policy(app)
    after = replace(before or Endpoint(tenant, name, ""), enabled=True, disabled_because="")
    changed: dict[str, Any] = {"enabled": True}
    if request.url is not None:
        changed["url"] = request.url
    if request.secrets or row is None:
        changed["secrets"] = list(request.secrets)
    after = replace(after, url=request.url or after.url, secrets=request.secrets or after.secrets)
    _check_settings(session, after, policy)
    session.say(f"Asking {public_part(after.url)}")
    check = endpoint_check.ask(session, after, policy)
    return EndpointPlan(id_, app, row, after, changed, _PAUSE, check, request.post)


_PAUSE = ("disabled_because", "disabled_at", "throttled_until", "throttled_by")
"""Columns that end when an endpoint is enabled."""


def url_policy(app: App) -> UrlPolicy:
    """What the app's dispatchers post to, as they are deployed."""
    webhooks = [pipeline.webhook for pipeline in app.pipelines]
    ports = {443, *(port for webhook in webhooks for port in webhook.get("ports", ()))}
    return UrlPolicy(
        any(webhook.get("allow_loopback") for webhook in webhooks), tuple(sorted(ports))
    )


def _check_settings(session: Session, endpoint: Endpoint, policy: UrlPolicy) -> None:
    """Problem if the URL or a secret's name is refused."""
    try:
        to = read_url(endpoint.url, allow_loopback=policy.allow_loopback, ports=policy.ports)
    except UrlRefused as error:
        raise Problem(f"URL refused: {error}. See --help.", Cause.INPUT) from error
    if not endpoint.secrets and not to.loopback:
        raise Problem(
            "Nothing is posted unsigned: name a secret with --secret "
            f"{session.app_name}/webhooks/...",
            Cause.INPUT,
        )
    try:
        for name in endpoint.secrets:
            refuse_secret_name(name, f"{session.app_name}/webhooks/")
    except SecretUnusable as error:
        raise Problem(f"The secret can't be used: {error}.", Cause.INPUT) from error


def _add_question(plan: EndpointPlan) -> Iterator[str]:
    assert plan.check is not None
    url = public_part(plan.after.url)
    if plan.row is None:
        yield f"New: the events of {plan.id} are posted to {url}."
    else:
        before = listed(plan.row, plan.check.at)
        because = f": {before.because}" if before.because else ""
        yield f"Endpoint {plan.id} ({before.url}) is {before.standing}{because}."
        yield f"Its events are posted to {url} from now on."
    yield from endpoint_check.in_words(plan.check)
    if plan.post:
        yield "First a signed test message: nothing is changed unless it is answered with 2xx."


def _add(session: Session, plan: EndpointPlan, reason: str) -> EndpointChange:
    table, check = EndpointTable(session.aws.dynamodb, plan.app.endpoints_table), plan.check
    with _recorded(session, plan, "endpoint add", reason):
        if plan.post:
            check = endpoint_check.ask(session, plan.after, url_policy(plan.app), post=True)
            if why := endpoint_check.complaints(check):
                raise Problem(f"Nothing was changed: {'; '.join(why)}.", Cause.FAILED)
        if plan.row is None:
            table.add(plan.id, plan.changed)
        else:
            table.update(plan.id, plan.changed, plan.ended)
    return _changed(session, plan, check)


def _to_disable(session: Session, request: DisableRequest) -> EndpointPlan:
    app = session.app()
    row = EndpointTable(session.aws.dynamodb, app.endpoints_table).find(request.endpoint)
    if row is None:
        raise Problem(_absent(request.endpoint), Cause.ABSENT)
    after = row.endpoint or Endpoint(*_place(request.endpoint), "")
    return EndpointPlan(request.endpoint, app, row, after, {"enabled": False})


def _disable_question(plan: EndpointPlan) -> Iterator[str]:
    yield f"Post nothing more to endpoint {plan.id} ({public_part(plan.after.url)})."


def _disable(session: Session, plan: EndpointPlan, reason: str) -> EndpointChange:
    because = f"{reason} ({session.aws.caller})"
    changed = {**plan.changed, "disabled_because": because, "disabled_at": int(session.clock())}
    with _recorded(session, plan, "endpoint disable", reason):
        EndpointTable(session.aws.dynamodb, plan.app.endpoints_table).update(plan.id, changed)
    return _changed(session, plan, None)


def _recorded(
    session: Session, plan: EndpointPlan, command: str, reason: str
) -> AbstractContextManager[object]:
    """Of the URL its host alone: a path may hold a token. Secrets by name.

    As the history of the table has it, so that the audit knows the change for the same.
    """
    tenant, endpoint = _place(plan.id)
    old = None if plan.row is None else plan.row.columns
    new = {"tenant": tenant, "endpoint": endpoint, **(old or {}), **plan.changed}
    new = {name: value for name, value in new.items() if name not in plan.ended}
    facts = edit_facts(old, new, f"{session.app_name}/webhooks/") or (None, None)
    change = IntendedChange(command, EVERY_PIPELINE, target(plan.id), reason, *facts)
    return recorded(session, plan.app, change)


def _changed(session: Session, plan: EndpointPlan, check: EndpointCheck | None) -> EndpointChange:
    row = EndpointTable(session.aws.dynamodb, plan.app.endpoints_table).find(plan.id)
    if row is None:
        raise Problem(_absent(plan.id), Cause.ABSENT)
    why = [] if check is None else endpoint_check.complaints(check)
    now = session.now
    return EndpointChange(**session.place, endpoint=listed(row, now), check=check, complaints=why)


def _absent(endpoint_id: str) -> str:
    tenant, endpoint = _place(endpoint_id)
    return f"Tenant {tenant!r} has no endpoint {endpoint!r}: see\ndlq endpoint list"


LIST = Verb(
    name="list",
    request=EndpointsRequest,
    examples=(
        "dlq endpoint list",
        "dlq endpoint list --query \"endpoints[?standing!='enabled'].[tenant, because]\"",
    ),
    read=_list,
)

CHANGES: Sequence[Verb] = (
    Verb(
        name="add",
        request=EndpointRequest,
        examples=(
            "dlq endpoint add acme --url https://acme.example/in --secret deadletter/webhooks/acme",
            'dlq endpoint add acme --post --reason "acme has mended it"',
            "dlq endpoint add acme/invoices --dry-run",
        ),
        change="An endpoint",
        prepare=_to_add,
        question=_add_question,
        commit=_add,
    ),
    Verb(
        name="disable",
        request=DisableRequest,
        examples=('dlq endpoint disable acme --reason "acme is moving"',),
        change="Disabling an endpoint",
        prepare=_to_disable,
        question=_disable_question,
        commit=_disable,
        plans=False,
    ),
)
