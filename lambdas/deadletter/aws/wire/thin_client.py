"""A boto3 client whose most needed calls go to AWS without most of boto3."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from threading import local
from typing import Any

from botocore.awsrequest import AWSPreparedRequest, AWSResponse, HeadersDict
from botocore.endpoint import convert_to_response_dict
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.handlers import add_recursion_detection_header
from botocore.httpsession import where
from botocore.parsers import create_parser

from deadletter.aws.wire.connections import Connections, Received
from deadletter.aws.wire.hot_calls import HOT_CALLS, Answer, HotCall
from deadletter.aws.wire.learned import CallPlace, learned

_MOST_LEARNED = 1_000
_REPAID_BY = 500
"""Successes after which botocore's quota of retries is full again."""

_SKEW_CODES = frozenset(
    {
        "AuthFailure",
        "InvalidSignatureException",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
_REFUSED = 300
"""The first HTTP status that is no success."""

_TOLERATED = timedelta(minutes=4)
"""How far our clock may be off: AWS refuses signatures from five minutes on."""


class ThinClient:
    """A client with the methods, answers and errors of the boto3 client, for less CPU time.

    It makes the hot calls itself and leaves the others, and whatever is unusual, to boto3.
    The first call to each place is boto3's, and shows how the next ones are made. botocore says
    what is tried again, and when; its hooks `before-send` see all requests, and may answer them.
    """

    # AWS reads conditions as texts.
    takes_values = False

    def __init__(
        self,
        client: Any,
        credentials: Any,
        now: Callable[[], datetime],
        wait: Callable[[float], object],
        bundle: str | None = None,
    ) -> None:
        """`credentials` are those of the client's session, and `now` is in UTC, without a zone.

        `wait` waits for seconds. `bundle` is a file of certificates to trust; None for botocore's.
        """
        self._client = client
        self._credentials = credentials
        self._now = now
        self._wait = wait
        self._bundle = bundle or where()
        self.meta = client.meta
        # What botocore does not have any more is missed here, and not at the first refusal.
        model = client.meta.service_model
        self._service = model.service_id.hyphenize()
        self._parser = create_parser(model.resolved_protocol)
        self._shape_of = model.shape_for_error_code
        self._learned: dict[Any, CallPlace] = {}
        self._connections: dict[str, Connections] = {}
        self._skew = timedelta()
        self._debt = 0
        self._lesson = local()
        # Other requests take a way that only boto3 knows.
        if not (client.meta.config.proxies or client.meta.config.client_cert):
            client.meta.events.register(f"before-send.{self._service}", self._learn)
            for name, call in HOT_CALLS.get(model.service_name, {}).items():
                setattr(self, name, partial(self._call, call, getattr(client, name)))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def close(self) -> None:
        """Close all idle connections. The client stays of use."""
        for connections in list(self._connections.values()):
            connections.close()
        self._client.close()

    def _call(self, call: HotCall, boto3_call: Callable[..., Answer], **arguments: Any) -> Answer:
        place = (call.name, call.place(arguments))
        known = self._learned.get(place)
        body = None if known is None else call.write(arguments)
        if known is not None and body is not None:
            return self._ask(call, known, body)
        self._lesson.place = place
        try:
            return boto3_call(**arguments)
        except ClientError as error:
            known, body = self._learned.get(place), call.write(arguments)
            metadata = error.response["ResponseMetadata"]
            date = metadata.get("HTTPHeaders", {}).get("date", "")
            if known is None or body is None or not self._corrects(error.response, date):
                raise
            return self._ask(call, known, body)
        finally:
            self._lesson.place = None

    def _learn(self, request: AWSPreparedRequest, **_: Any) -> None:
        """Called by botocore before it sends a request, in the thread that made the call."""
        place = getattr(self._lesson, "place", None)
        if place is None or self._credentials is None:
            return
        lesson = learned(request, self._credentials.get_frozen_credentials())
        if lesson is not None:
            if len(self._learned) >= _MOST_LEARNED:
                self._learned.clear()
            self._learned[place] = lesson

    def _ask(self, call: HotCall, place: CallPlace, body: bytes) -> Answer:
        context = {"client_config": self.meta.config}
        tries = 0
        corrected = False
        while True:
            tries += 1
            received, answer, error = self._tried(call, place, body)
            if received is not None and answer is not None:
                answer["ResponseMetadata"] = _metadata(received, tries)
                self._repay(call, received, answer, context)
                return answer
            response = None if received is None else self._refusal(call, place, received)
            if response is not None and not corrected:
                # A refused signature had no effect: this is no second try of the call.
                date = response[0].headers.get("date", "")
                corrected = self._corrects(response[1], date)
                tries -= corrected
            again = corrected and tries == 0
            if delay := 0 if again else self._delay(call, tries, response, error, context):
                self._wait(delay)

    def _tried(
        self, call: HotCall, place: CallPlace, body: bytes
    ) -> tuple[Received | None, Answer | None, Exception | None]:
        """What came of one request: an answer that reads well, a refusal, or an error."""
        try:
            received = self._send(call, place, body)
        except BotoCoreError as error:
            return None, None, error
        if received.status >= _REFUSED:
            return received, None, None
        try:
            return received, call.read(received), None
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            # An answer that cannot be read says as little as a lost one.
            return None, None, HTTPClientError(error=error)

    def _send(self, call: HotCall, place: CallPlace, body: bytes) -> Received:
        moment = (self._now() + self._skew).strftime("%Y%m%dT%H%M%SZ")
        traced: dict[str, dict[str, str]] = {"headers": {}}
        add_recursion_detection_header(traced)
        credentials = self._credentials.get_frozen_credentials()
        headers = place.headers_for(body, moment, credentials, traced["headers"])
        prepared = AWSPreparedRequest("POST", place.url, _dictionary(headers), body, False)
        event = f"before-send.{self._service}.{call.name}"
        for _, response in self.meta.events.emit(event, request=prepared):
            if response is not None:
                names = {name.lower(): value for name, value in response.headers.items()}
                return Received(response.status_code, names, response.content)
        return self._connections_to(place.origin).ask(place.request(headers, body))

    def _connections_to(self, origin: str) -> Connections:
        connections = self._connections.get(origin)
        if connections is None:
            config = self.meta.config
            made = Connections(
                origin,
                connect_timeout=config.connect_timeout,
                read_timeout=config.read_timeout,
                idle=config.max_pool_connections,
                bundle=self._bundle,
                now=self._now,
            )
            connections = self._connections.setdefault(origin, made)
        return connections

    def _corrects(self, refusal: Any, date: str) -> bool:
        """True if the call was refused for our clock, which is corrected by the service's."""
        if refusal.get("Error", {}).get("Code") not in _SKEW_CODES:
            return False
        try:
            theirs = parsedate_to_datetime(date).replace(tzinfo=None)
        except (TypeError, ValueError):
            return False
        skew = theirs - self._now()
        if abs(skew - self._skew) < _TOLERATED:
            return False
        self._skew = skew
        return True

    def _refusal(self, call: HotCall, place: CallPlace, received: Received) -> tuple[Any, Any]:
        """The refusal as boto3 reads it: the response, and what it says."""
        http = AWSResponse(
            place.url, received.status, _dictionary(received.headers), _Raw(received.body)
        )
        model = self._model(call)
        response = convert_to_response_dict(http, model)
        parsed = self._parser.parse(response, model.output_shape)
        code = parsed.get("Error", {}).get("Code")
        shape = self._shape_of(code) if code else None
        if shape is not None:
            parsed.update(self._parser.parse(response, shape))
        return http, parsed

    def _delay(
        self, call: HotCall, tries: int, response: Any, error: Exception | None, context: Any
    ) -> float:
        """Seconds until the next try. Raises the call's error if there is to be no other."""
        event = f"needs-retry.{self._service}.{call.name}"
        answers = self.meta.events.emit(
            event,
            response=response,
            endpoint=None,
            operation=self._model(call),
            attempts=tries,
            caught_exception=error,
            request_dict={"context": context},
        )
        delay = next((answer for _, answer in answers if answer is not None), None)
        if delay is not None and delay is not False:
            self._debt = _REPAID_BY
            return float(delay)
        if response is None:
            raise error or HTTPClientError(error="no answer")
        http, parsed = response
        parsed.setdefault("ResponseMetadata", {})["RetryAttempts"] = tries - 1
        self._after(call, http, parsed, context)
        code = context.get("error_code_override") or parsed.get("Error", {}).get("Code")
        raise self._client.exceptions.from_code(code)(parsed, call.name)

    def _repay(self, call: HotCall, received: Received, answer: Answer, context: Any) -> None:
        """Give botocore's quota of retries what a success gives back, if one took from it."""
        if self._debt:
            self._debt -= 1
            http = AWSResponse("", received.status, _dictionary(received.headers), None)
            self._after(call, http, answer, context)

    def _after(self, call: HotCall, http: Any, parsed: Any, context: Any) -> None:
        self.meta.events.emit(
            f"after-call.{self._service}.{call.name}",
            http_response=http,
            parsed=parsed,
            model=self._model(call),
            context=context,
        )

    def _model(self, call: HotCall) -> Any:
        return self.meta.service_model.operation_model(call.name)


def _dictionary(headers: Mapping[str, str]) -> Any:
    """Headers as botocore has them: found in any case of letters."""
    return HeadersDict(headers)


def _metadata(received: Received, tries: int) -> dict[str, Any]:
    """An answer's ResponseMetadata, as boto3 has it."""
    said = {
        "HTTPStatusCode": received.status,
        "HTTPHeaders": received.headers,
        "RetryAttempts": tries - 1,
    }
    request_id = received.headers.get("x-amzn-requestid")
    return said if request_id is None else {"RequestId": request_id, **said}


class _Raw:
    """A body that has been read already, as botocore reads bodies."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    def stream(self, **_: Any) -> list[bytes]:
        return [self._body]
