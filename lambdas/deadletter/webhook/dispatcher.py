"""Delivers messages to the endpoints that the registry lists for their tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from threading import Lock

from deadletter.contract import Body, Category
from deadletter.failure.classify import retry_after
from deadletter.failure.signals import Permanent, Transient
from deadletter.message.letter import utf8
from deadletter.processing.delivery import Delivery
from deadletter.rules.document import TENANT
from deadletter.settings.webhook import Webhook
from deadletter.webhook import signing
from deadletter.webhook.endpoint import (
    DEFAULT_ENDPOINT,
    DISABLED,
    LONGEST_PAUSE_SECONDS,
    NO_SUCH_ENDPOINT,
    PAUSES_END,
    BadEndpoint,
    Endpoint,
    Registry,
    RegistryUnavailable,
    Secrets,
    SecretsUnavailable,
    SecretUnusable,
)
from deadletter.webhook.http import HttpResponse, NoAnswer
from deadletter.webhook.signing import Secret
from deadletter.webhook.url_guard import Destination, UrlRefused, read_url

ATTEMPT = "webhook-attempt"
"""The header with the number of the post among all posts of the message, from 1."""

REPLAY = "webhook-replay"
"""The header with the id of the replay run that sent the message; other messages have none."""

POSTS_AT_ONCE = 10
"""The endpoints of one batch that are posted to at the same time: as many as a batch has
messages, so that a slow endpoint delays no other."""

# The pause of an overloaded endpoint that does not say how long.
_DEFAULT_PAUSE_SECONDS = 30.0

# Statuses by which an endpoint asks for fewer requests.
_OVERLOADED = frozenset({429, 502, 504})

# Statuses that may be different later. Any other 4xx needs a change by a person.
_RETRYABLE = frozenset({408, 425, 429})

_GONE = 410

# Pauses kept in memory before those that are over are removed.
_MOST_PAUSES = 200


class EndpointUnfit(Exception):
    """The endpoint cannot be delivered to until a person repairs it; the letter is not to blame.

    `status` is its answer; None if no request was made, which says nothing of whether it
    works.
    """

    category = Category.INTEGRATION
    plain = True

    def __init__(self, why: str, *, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.untried = self.without_effect = status is None


class EndpointBusy(Transient):
    """The endpoint, the registry or the store of secrets cannot serve the letter now.

    Without a status no request was made.
    """

    plain = True

    @property
    def without_effect(self) -> bool:
        return self.status is None


class Paused(EndpointBusy):
    """The endpoint asked for a pause, so no request was made."""

    untried = True
    without_effect = True


class EndpointSilent(Transient):
    """The endpoint gave no answer."""


class MessageUnfit(Permanent):
    """The message cannot be read, or does not name its tenant: no request was made."""

    plain = True
    without_effect = True


Post = Callable[[Destination, bytes, Mapping[str, str]], HttpResponse]
"""Posts a body with headers; raises NoAnswer, and UrlRefused for a host with unfit addresses."""


class Dispatcher:
    """Posts each message to its tenant's endpoint; only 2xx is success.

    `body` says whether a body that is not JSON is a failure; `clock` gives epoch seconds. Threads
    may share it, if registry, secrets and `post` may be shared.
    """

    def __init__(
        self,
        *,
        webhook: Webhook,
        registry: Registry,
        secrets: Secrets,
        post: Post,
        body: Body,
        clock: Callable[[], float],
    ) -> None:
        self._webhook = webhook
        self._registry = registry
        self._secrets = secrets
        self._post = post
        self._body = body
        self._clock = clock
        self._pauses: dict[tuple[str, str], tuple[float, int]] = {}
        self._lock = Lock()

    def deliver(self, delivery: Delivery) -> None:
        """Post the message; returns once its endpoint has accepted it.

        Raises Permanent for a message that cannot be read or names no tenant, Transient for
        an endpoint that is busy or gives no answer, and EndpointUnfit for one that a person
        has to repair. Their texts never quote the message or the URL.
        """
        endpoint = self._endpoint(delivery)
        self._refuse_while_paused(endpoint)
        try:
            destination = self._destination(endpoint)
            body = utf8(delivery.letter.body)
            headers = self._headers(delivery, endpoint, destination, body)
            answer = self._post(destination, body, headers)
        except UrlRefused as error:
            raise EndpointUnfit(f"the endpoint's URL is refused: {error}") from error
        except NoAnswer as error:
            raise EndpointSilent(str(error)) from error
        self._judge(endpoint, answer)

    def _endpoint(self, delivery: Delivery) -> Endpoint:
        document = delivery.document
        if document.unreadable is not None and self._body is Body.JSON:
            # Without the position, so that failures of one kind share a fingerprint.
            why = f"the body cannot be read: {document.unreadable.partition(' at ')[0]}"
            raise MessageUnfit(why, category=Category.SCHEMA)
        place = lane_of(delivery)
        if place is None:
            raise MessageUnfit("the message names no tenant", category=Category.SCHEMA)
        try:
            endpoint = self._registry.find(*place)
        except RegistryUnavailable as error:
            raise EndpointBusy("the endpoint registry gave no answer") from error
        except BadEndpoint as error:
            raise EndpointUnfit(f"the endpoint's row is invalid: {error}") from error
        if endpoint is None:
            raise EndpointUnfit(NO_SUCH_ENDPOINT)
        if not endpoint.enabled:
            raise EndpointUnfit(DISABLED)
        return endpoint

    def _destination(self, endpoint: Endpoint) -> Destination:
        webhook = self._webhook
        return read_url(endpoint.url, allow_loopback=webhook.allow_loopback, ports=webhook.ports)

    def _headers(
        self, delivery: Delivery, endpoint: Endpoint, destination: Destination, body: bytes
    ) -> dict[str, str]:
        secrets = self._secrets_of(endpoint, destination)
        signature = signing.headers(webhook_id(delivery), self._clock(), body, secrets)
        ours = {ATTEMPT: str(delivery.tries)}
        if (run := delivery.stamp.run) is not None and run.isalnum() and run.isascii():
            ours[REPLAY] = run
        is_json = delivery.document.unreadable is None
        content_type = "application/json" if is_json else "application/octet-stream"
        return {"content-type": content_type, "user-agent": "deadletter", **signature, **ours}

    def _secrets_of(self, endpoint: Endpoint, destination: Destination) -> list[Secret]:
        """All secrets of the endpoint: if one is missing, its receiver may know only that one."""
        if not endpoint.secrets and not destination.loopback:
            raise EndpointUnfit("the endpoint has no secret to sign with")
        try:
            return [self._secrets.read(name) for name in endpoint.secrets]
        except SecretUnusable as error:
            raise EndpointUnfit(f"a secret of the endpoint is not usable: {error}") from error
        except SecretsUnavailable as error:
            raise EndpointBusy("the store of secrets gave no answer") from error

    def _refuse_while_paused(self, endpoint: Endpoint) -> None:
        """Raise Paused until the pause that the endpoint asked for is over."""
        now = self._clock()
        own_pause = self._pauses.get(_key(endpoint), (0.0, 0))
        # Another worker's pause stands in the row. One that no worker writes would never end.
        until_in_row = endpoint.throttled_until
        is_pause = until_in_row <= now + PAUSES_END
        in_row = (until_in_row, endpoint.throttled_by or 429) if is_pause else (0.0, 0)
        until, status = max(own_pause, in_row)
        if now < until:
            why = f"not posted: the endpoint answered {status} and is paused"
            raise Paused(why, status=status, retry_after=until - now)

    def _judge(self, endpoint: Endpoint, answer: HttpResponse) -> None:
        status, now = answer.status, self._clock()
        if 200 <= status <= 299:
            return
        why = f"the endpoint answered {status}"
        if status == _GONE:
            self._disable(endpoint, now)
            raise EndpointUnfit(f"{why}, and is disabled", status=status)
        if status not in _RETRYABLE and not 500 <= status <= 599:
            raise EndpointUnfit(why, status=status)
        pause = pause_of(answer, now)
        if pause is not None:
            self._pause(endpoint, now + pause, status, now)
        raise EndpointBusy(why, status=status, retry_after=pause)

    def _disable(self, endpoint: Endpoint, now: float) -> None:
        # Else the next message gets the same answer, and disables the endpoint then.
        with suppress(RegistryUnavailable):
            self._registry.disable(endpoint, f"it answered {_GONE}", now)

    def _pause(self, endpoint: Endpoint, until: float, status: int, now: float) -> None:
        with self._lock:
            if len(self._pauses) >= _MOST_PAUSES:
                over = [key for key, (end, _) in self._pauses.items() if end <= now]
                for key in over:
                    del self._pauses[key]
            self._pauses[_key(endpoint)] = until, status
        # Else this worker knows the pause, and each other one learns it from the endpoint.
        with suppress(RegistryUnavailable):
            self._registry.throttle(endpoint, until, status, now)


def lane_of(delivery: Delivery) -> tuple[str, str] | None:
    """The endpoint that a message names, by tenant and name; None if it names none.

    The messages of one endpoint are posted one after the other, in their order.
    """
    context = delivery.document.value["context"]
    tenant, name = context.get(TENANT), context.get("endpointId", DEFAULT_ENDPOINT)
    return (tenant, str(name)) if isinstance(tenant, str) else None


def webhook_id(delivery: Delivery) -> str:
    """The message's webhook id, the same in all its lives.

    It is the origin id. For a message with a business key it is a hash of that key and of
    body and attributes: the same for all copies of one message, and different for another
    message with the same key.
    """
    by_origin = delivery.key.text == f"origin:{delivery.stamp.origin}"
    return delivery.stamp.origin if by_origin else delivery.key.beside(None).digest


def pause_of(answer: HttpResponse, now: float) -> float | None:
    """Seconds of the pause that an endpoint asks for; None if it does not ask."""
    pause = None if answer.retry_after is None else retry_after(answer.retry_after, now)
    if pause is None:
        return _DEFAULT_PAUSE_SECONDS if answer.status in _OVERLOADED else None
    # A pause of 0 seconds would send the whole backlog to an overloaded endpoint at once.
    return min(LONGEST_PAUSE_SECONDS, max(1.0, pause))


def _key(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.tenant, endpoint.endpoint
