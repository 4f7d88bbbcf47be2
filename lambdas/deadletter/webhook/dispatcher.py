"""Delivers messages to the endpoints that a registry names for their tenants."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from deadletter.contract import Body
from deadletter.failure.classify import retry_after
from deadletter.failure.failure import Category
from deadletter.failure.signals import Permanent, Transient
from deadletter.message.letter import utf8
from deadletter.processing.delivery import Delivery
from deadletter.rules.document import Document
from deadletter.settings.webhook import Webhook
from deadletter.webhook import signing
from deadletter.webhook.endpoint import (
    DEFAULT_ENDPOINT,
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
"""Which life of the message this is: 1 is the first, each re-drive is one more."""

LONGEST_PAUSE = 3600.0
"""Seconds; an endpoint that asks for more is asked again after this."""

# Seconds, for an endpoint that is overloaded and does not say for how long.
_PAUSE = 30.0

# Answers by which an endpoint asks to be sent less.
_OVERLOADED = frozenset({429, 502, 504})

# Answers that another time can change; every other failure is somebody's to mend.
_NOT_NOW = frozenset({408, 425, 429})

_GONE = 410

# Endpoints whose pause is remembered here, before those that are over are forgotten.
_MOST_PAUSES = 200


class EndpointUnfit(Exception):
    """The endpoint can't be delivered to until somebody mends it; the letter is not to blame.

    `status` is how it answered; None if it was not asked at all, which says nothing of
    whether it works.
    """

    category = Category.INTEGRATION
    plain = True

    def __init__(self, why: str, *, status: int | None = None) -> None:
        super().__init__(why)
        self.status = status
        self.untried = status is None


class EndpointBusy(Transient):
    """The endpoint, or what is needed to reach it, has no time for the letter now."""

    plain = True


class Paused(EndpointBusy):
    """The endpoint asked to be left alone, and was."""

    untried = True


class EndpointSilent(Transient):
    """The endpoint gave no answer at all."""


class MessageUnfit(Permanent):
    """The message cannot be read, or does not say where it is to go."""

    plain = True


Post = Callable[[Destination, bytes, Mapping[str, str]], HttpResponse]
"""Posts a body with headers; raises NoAnswer, and Refused for a host with unfit addresses."""


class Dispatcher:
    """Posts each message to its tenant's endpoint; 2xx alone is success.

    `body` says whether one that is not JSON is a fault; `clock` is in epoch seconds.
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

    def deliver(self, delivery: Delivery) -> None:
        """Post the message, and return if its endpoint has taken it.

        Raises Permanent for a message that can't be read or names no tenant, Transient for
        an endpoint that is busy or silent, and EndpointUnfit for one that somebody has to
        mend. No text of theirs quotes the message or the URL.
        """
        endpoint = self._endpoint(delivery.document)
        self._refuse_while_paused(endpoint)
        try:
            to = self._destination(endpoint)
            body = utf8(delivery.letter.body)
            answer = self._post(to, body, self._headers(delivery, endpoint, to, body))
        except UrlRefused as error:
            raise EndpointUnfit(f"the endpoint's URL is refused: {error}") from error
        except NoAnswer as error:
            raise EndpointSilent(str(error)) from error
        self._judge(endpoint, answer)

    def _endpoint(self, document: Document) -> Endpoint:
        if document.unreadable is not None and self._body is Body.JSON:
            # Without the place, so that failures of one kind have one fingerprint.
            why = f"the body cannot be read: {document.unreadable.partition(' at ')[0]}"
            raise MessageUnfit(why, category=Category.SCHEMA)
        context = document.value["context"]
        tenant, name = context.get("tenantId"), context.get("endpointId", DEFAULT_ENDPOINT)
        if not isinstance(tenant, str):
            raise MessageUnfit("the message names no tenant", category=Category.SCHEMA)
        try:
            found = self._registry.find(tenant, str(name))
        except RegistryUnavailable as error:
            raise EndpointBusy("the endpoint registry gave no answer") from error
        except BadEndpoint as error:
            raise EndpointUnfit(f"the endpoint's row is not understood: {error}") from error
        if found is None:
            raise EndpointUnfit("the tenant has no such endpoint")
        if not found.enabled:
            raise EndpointUnfit("the endpoint is disabled")
        return found

    def _destination(self, endpoint: Endpoint) -> Destination:
        webhook = self._webhook
        return read_url(endpoint.url, allow_loopback=webhook.allow_loopback, ports=webhook.ports)

    def _headers(
        self, delivery: Delivery, endpoint: Endpoint, to: Destination, body: bytes
    ) -> dict[str, str]:
        signed = signing.headers(
            webhook_id(delivery), self._clock(), body, self._secrets_of(endpoint, to)
        )
        life = {ATTEMPT: str(delivery.stamp.attempt + 1)}
        is_json = delivery.document.unreadable is None
        kind = "application/json" if is_json else "application/octet-stream"
        return {"content-type": kind, "user-agent": "deadletter", **signed, **life}

    def _secrets_of(self, endpoint: Endpoint, to: Destination) -> list[Secret]:
        """Every secret of the endpoint: one that is missing might be what its receiver knows."""
        if not endpoint.secrets and not to.loopback:
            raise EndpointUnfit("the endpoint has no secret to sign with")
        try:
            return [self._secrets.read(name) for name in endpoint.secrets]
        except SecretUnusable as error:
            raise EndpointUnfit(f"a secret of the endpoint is not usable: {error}") from error
        except SecretsUnavailable as error:
            raise EndpointBusy("the store of secrets gave no answer") from error

    def _refuse_while_paused(self, endpoint: Endpoint) -> None:
        """An endpoint that asked for a pause is not called before it is over."""
        now = self._clock()
        ours, our_status = self._pauses.get(_key(endpoint), (0.0, 0))
        # Somebody else's pause stands in the row; nobody's is longer than the longest.
        theirs = min(endpoint.throttled_until, now + LONGEST_PAUSE)
        until, status = max((ours, our_status), (theirs, endpoint.throttled_by or 429))
        if now < until:
            why = f"not posted: the endpoint answered {status} and has a pause"
            raise Paused(why, status=status, retry_after=until - now)

    def _judge(self, endpoint: Endpoint, answer: HttpResponse) -> None:
        status, now = answer.status, self._clock()
        if 200 <= status <= 299:
            return
        why = f"the endpoint answered {status}"
        if status == _GONE:
            self._disable(endpoint, now)
            raise EndpointUnfit(f"{why}, and is disabled", status=status)
        if status not in _NOT_NOW and not 500 <= status <= 599:
            raise EndpointUnfit(why, status=status)
        pause = pause_of(answer, now)
        if pause is not None:
            self._pause(endpoint, now + pause, status, now)
        raise EndpointBusy(why, status=status, retry_after=pause)

    def _disable(self, endpoint: Endpoint, now: float) -> None:
        try:
            self._registry.disable(endpoint, f"it answered {_GONE}", now)
        except RegistryUnavailable:
            # The next message meets the same answer, and tries again.
            return

    def _pause(self, endpoint: Endpoint, until: float, status: int, now: float) -> None:
        if len(self._pauses) >= _MOST_PAUSES:
            self._pauses = {key: one for key, one in self._pauses.items() if one[0] > now}
        self._pauses[_key(endpoint)] = until, status
        try:
            self._registry.throttle(endpoint, until, status, now)
        except RegistryUnavailable:
            # Here it is known; the others find out by themselves.
            return


def webhook_id(delivery: Delivery) -> str:
    """What the message is called in all its lives.

    Its origin id; with a business key of its own, a hash of that key and of what was sent,
    so that it is the same for all copies of one message, and another for another message
    under the same key.
    """
    by_origin = delivery.key.text == f"origin:{delivery.stamp.origin}"
    return delivery.stamp.origin if by_origin else delivery.key.digest_with_payload


def pause_of(answer: HttpResponse, now: float) -> float | None:
    """Seconds for which an endpoint asks to be left alone; None if it does not ask."""
    asked = None if answer.retry_after is None else retry_after(answer.retry_after, now)
    if asked is None:
        return _PAUSE if answer.status in _OVERLOADED else None
    # At once is no answer of somebody who is overloaded.
    return min(LONGEST_PAUSE, max(1.0, asked))


def _key(endpoint: Endpoint) -> tuple[str, str]:
    return endpoint.tenant, endpoint.endpoint
