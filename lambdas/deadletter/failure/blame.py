"""Who is to blame for a failure: the dependency, its configuration, or neither.

Only what speaks of the dependency counts against it: a call without an answer, a connection that
failed, a service that is busy or broken. An error in the code or in the data says nothing of it.
No failure is evidence *for* the dependency: only a processed message is.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadletter.contract import Blame, Category
from deadletter.failure import codes
from deadletter.failure.failure import WEIGHT, blame_of_status
from deadletter.failure.foreign import (
    FORBIDDEN,
    Link,
    answer,
    attribute,
    chain_of,
    dbapi_names,
    error_words,
    header,
    http_status,
    names_of,
    text_of,
    tried,
    within,
    words_of_a_service,
)
from deadletter.failure.signals import Permanent, Transient

Errors = type[BaseException] | Collection[type[BaseException]] | Callable[[BaseException], object]
"""Which exceptions are meant: a class, several, or a function that returns True for them."""

Speaker = Callable[[BaseException], Blame | None]
"""Says what one exception speaks of, by one part of it; None if that says nothing."""

_DBAPI_OPERATIONAL = "OperationalError"
_DBAPI_NEITHER = frozenset({"DataError", "IntegrityError", "NotSupportedError", "ProgrammingError"})

# Drivers whose errors carry no number of MySQL or SQL Server.
_NO_NUMBERS = frozenset({"asyncpg", "oracledb", "psycopg", "psycopg2", "pyodbc", "snowflake"})

_SQLSTATE_LENGTH = 5

# In the text of a driver's error without a code.
_LOST = ("closed", "lost", "gone away", "terminat", "could not connect", "SSL SYSCALL", "(0, '')")

# libpq, Snowflake and DB2 say in words alone why a server refused to let somebody in.
_NOT_LET_IN = re.compile(
    r"authentication failed|no pg_hba\.conf entry|pg_hba\.conf rejects|no password supplied|"
    r"(role|database) \"[^\"]*\" does not exist|is not permitted to log in|"
    r"permission denied for database|SQL30082N|"
    r"to connect to DB.*(Incorrect username or password|temporarily locked|JWT token is invalid|"
    r"not authorized|not allowed to access|Verify the account name)"
)

_AWS_TEXT = re.compile(r"An error occurred \((\w{1,80})\) when calling the \w{1,80} operation")

# What the code or the data is wrong with; a class derived from one of these is a mistake in a
# call, whatever its own name.
_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class TeamsWord:
    """What a team says of its own exceptions; it counts before what the library knows."""

    dependency: Callable[[BaseException], bool]
    ignored: Callable[[BaseException], bool]

    def on(self, error: BaseException) -> Blame | None:
        """The blame of an exception that the team has named; ignoring comes first."""
        if self.ignored(error):
            return Blame.NEITHER
        return Blame.DEPENDENCY if self.dependency(error) else None


def teams_word(dependency_errors: Errors = (), ignored_errors: Errors = ()) -> TeamsWord:
    """The team's word, from the two options of the consumer library; raises TypeError."""
    return TeamsWord(
        _matcher("dependency_errors", dependency_errors), _matcher("ignored_errors", ignored_errors)
    )


def _matcher(name: str, errors: Errors) -> Callable[[BaseException], bool]:
    if isinstance(errors, type) and issubclass(errors, BaseException):
        classes: tuple[type[BaseException], ...] = (errors,)
        return lambda error: isinstance(error, classes)
    if callable(errors) and not isinstance(errors, type):
        function = errors

        def by_function(error: BaseException) -> bool:
            # A mistake in it must not fail the batch, and says nothing of the dependency.
            try:
                return bool(function(error))
            except Exception:
                return False

        return by_function
    members = None if isinstance(errors, str | type) else _listed(errors)
    if members is None:
        raise TypeError(
            f"{name} is {errors!r}; allowed: an exception class, a tuple of them, or a function "
            f"of one exception that returns True or False, such as {name}=(WarehouseBusy,)"
        )
    return lambda error: isinstance(error, members)


def _listed(errors: Any) -> tuple[type[BaseException], ...] | None:
    members = tuple(errors) if isinstance(errors, tuple | list | set | frozenset) else (None,)
    are_classes = all(
        isinstance(item, type) and issubclass(item, BaseException) for item in members
    )
    return members if are_classes else None


SILENT = teams_word()
"""A team that has said nothing."""


def heaviest(blames: Iterable[Blame | None]) -> Blame | None:
    """Of several blames for one failure, the one that counts; None if all are silent."""
    spoken = [blame for blame in blames if blame is not None]
    return min(spoken, key=WEIGHT.index, default=None)


def blame_and_speakers(
    chain: Sequence[Link], team: TeamsWord = SILENT
) -> tuple[Blame, tuple[BaseException, ...]]:
    """The blame for a failure, by the chain of its exceptions, and which of them say so.

    The team's word comes first, on any exception of the chain. Else the nearest that says
    anything speaks; a KeyError or an unknown class says nothing. Of a group's members, which are
    equally near, one that speaks of the dependency is enough. If all are silent, neither.
    """
    for judgement in (team.on, own_blame):
        nearest, spoken = -1, list[tuple[Blame, BaseException]]()
        for link in chain:
            blame = None if spoken and link.depth > nearest else judgement(link.error)
            if blame is not None:
                nearest = link.depth
                spoken.append((blame, link.error))
        blame = heaviest(blame for blame, _ in spoken)
        if blame is not None:
            return blame, tuple(error for said, error in spoken if said is blame)
    return Blame.NEITHER, ()


def own_blame(error: BaseException) -> Blame | None:
    """What one exception says by itself; None if it says nothing. Never raises."""
    return _said(error, _SPEAKERS)


def stated_category(error: BaseException) -> Category | None:
    """The category that one exception states, whoever is to blame for it; None for most."""
    declared = attribute(error, "category")
    return declared if isinstance(declared, Category) else None


def _said(error: BaseException, speakers: Iterable[Speaker]) -> Blame | None:
    blames = (speak(error) for speak in speakers)
    return next((blame for blame in blames if blame is not None), None)


def _of_our_own(error: BaseException) -> Blame | None:
    # For example the endpoint is not in the registry: no request reached the dependency.
    if isinstance(error, Permanent) or attribute(error, "untried") is True:
        return Blame.NEITHER
    stated = stated_category(error)
    if stated is not None and stated.course.blame is not None:
        return stated.course.blame
    if isinstance(error, Transient):
        return _of_status(error) or Blame.DEPENDENCY
    return None


def _of_aws(error: BaseException) -> Blame | None:
    response = attribute(error, "response")
    if any(name == "S3UploadFailedError" for name, _ in names_of(error)):
        # boto3 keeps the first error's text alone. Files may be named like one.
        said = _AWS_TEXT.findall(text_of(error))
        return codes.of_aws(said[-1]) if said else None
    if not isinstance(response, Mapping):
        return None
    code = within(response, "Error", "Code")
    if not isinstance(code, str):
        return None
    operation = attribute(error, "operation_name")
    blame = heaviest((codes.of_aws(code, operation), *_of_transaction(response)))
    return blame or _of_status(error) or Blame.NEITHER


def _of_transaction(response: Mapping[Any, Any]) -> set[Blame | None]:
    """A transaction of DynamoDB says for each item why it was canceled."""
    reasons = response.get("CancellationReasons")
    reasons = reasons if isinstance(reasons, list) else []
    named = [reason.get("Code") for reason in reasons if isinstance(reason, Mapping)]
    return {codes.of_aws(code) for code in named if isinstance(code, str)}


def _of_grpc(error: BaseException) -> Blame | None:
    # grpc has a method, grpclib and Temporal an attribute, Firebase the name itself.
    for status in (
        answer(error, "code"),
        attribute(error, "status"),
        attribute(error, "grpc_status_code"),
        attribute(error, "code"),
    ):
        blame = codes.of_grpc(status if isinstance(status, str) else attribute(status, "name"))
        if blame is not None:
            return blame
    return None


def _of_database(error: BaseException) -> Blame | None:
    for link in chain_of(error):
        # Peewee and Tortoise keep the driver's error as their first argument.
        for each in (link.error, _first_argument(link.error)):
            is_read = link.meant and isinstance(each, BaseException)
            blame = _of_database_code(each) if is_read else None
            if blame is not None:
                return blame
        if not dbapi_names(link.error):
            break
    kinds = dbapi_names(error)
    if not kinds:
        return None
    text = text_of(error)
    return codes.of_oracle(text) or _of_driver(kinds, [name for name, _ in names_of(error)], text)


def _of_database_code(error: BaseException) -> Blame | None:
    if attribute(error, "connection_invalidated") is True:
        return Blame.DEPENDENCY
    first, library = _first_argument(error), next(names_of(error))[1]
    blame = _of_own_number(library, error)
    if blame is not None:
        return blame
    # pg8000 keeps the fields of the server's answer, by their letters.
    field = first.get("C") if isinstance(first, dict) else first
    for state in (attribute(error, "sqlstate"), attribute(error, "pgcode"), field):
        # The length first: the pattern would read a whole message.
        if not isinstance(state, str) or len(state) != _SQLSTATE_LENGTH:
            continue
        if codes.SQLSTATE.fullmatch(state):
            blame = codes.of_sqlstate(state)
            if blame is not None:
                return blame
    if not dbapi_names(error) or library in _NO_NUMBERS:
        return None
    if library == "sqlite3":
        # A file of this machine.
        return Blame.NEITHER
    number = attribute(error, "errno") or first
    number = number[0] if isinstance(number, tuple) and number else number
    # 0 and -1 are no numbers of the server.
    if not isinstance(number, int) or number <= 0:
        return None
    return (
        codes.of_number("sqlserver" if library == "pymssql" else "mysql", number) or Blame.NEITHER
    )


def _of_own_number(library: str, error: BaseException) -> Blame | None:
    """By the number of a database that says more than the SQLSTATE beside it, or has none."""
    if library == "pyodbc":
        return codes.of_odbc(text_of(error))
    if library.startswith("clickhouse"):
        return codes.of_clickhouse(text_of(error))
    if library != "snowflake":
        return None
    number = attribute(error, "errno")
    refused = number == _NOT_CONNECTED and _NOT_LET_IN.search(text_of(error))
    return Blame.CONFIGURATION if refused else codes.of_number(library, number)


# Snowflake's driver has one number for all logins that fail.
_NOT_CONNECTED = 250_001


def _of_driver(kinds: set[str], names: Iterable[str], text: str) -> Blame | None:
    """By the driver's class, for an error without any code."""
    if kinds & _DBAPI_NEITHER:
        return Blame.NEITHER
    refused = _NOT_LET_IN.search(text) or any(map(codes.REFUSED_NAME.search, names))
    if _DBAPI_OPERATIONAL in kinds and refused:
        return Blame.CONFIGURATION
    lost = any(part in text for part in _LOST)
    return Blame.DEPENDENCY if lost or _DBAPI_OPERATIONAL in kinds else None


def _of_protocol(error: BaseException) -> Blame | None:
    """By the code of a protocol that is not HTTP; its numbers look like HTTP's."""
    names = dict(names_of(error))
    if any(name.startswith("SMTP") for name in names):
        return _of_smtp(error, names)
    first = _first_argument(error)
    if names.keys() & {"error_temp", "error_perm"}:
        reply = str(first)[:3]
        return codes.of_mail(int(reply)) if reply.isdecimal() else None
    code = attribute(error, "code")
    if "PyMongoError" in names and isinstance(code, int):
        said = (codes.of_number("mongo", each) for each in _codes_of_bulk(error) or [code])
        return heaviest(said) or Blame.NEITHER
    if names.keys() & {"ConnectionClosed", "WebSocketDisconnect"}:
        received = attribute(attribute(error, "rcvd"), "code") or code
        if isinstance(received, int):
            return codes.of_number("websocket", received) or Blame.NEITHER
    reply_code = attribute(error, "reply_code")
    if isinstance(reply_code, int):
        return codes.of_number("amqp", reply_code) or Blame.NEITHER
    if "Fault" in names and isinstance(code, str):
        return codes.of_soap(code)
    if names.get("error") == "imaplib" or "error_proto" in names:
        return codes.of_mailbox(text_of(error))
    if "FacebookRequestError" in names:
        return codes.of_number("facebook", answer(error, "api_error_code"))
    # Google says so of a busy endpoint for tokens; any other failure there wants a person.
    if "GoogleAuthError" in names and attribute(error, "retryable") is True:
        return Blame.DEPENDENCY
    kafka = answer(first, "name") if callable(attribute(first, "code")) else None
    if isinstance(kafka, str):
        return codes.of_kafka(kafka)
    if "RedisError" in names:
        return codes.of_redis(text_of(error))
    return codes.of_number("curl", first) if names.get("error") == "pycurl" else None


def _codes_of_bulk(error: BaseException) -> list[int]:
    """The codes that MongoDB gives to the single writes of a bulk."""
    details = attribute(error, "details")
    details = details if isinstance(details, dict) else {}
    entries = [
        entry
        for name in ("writeErrors", "writeConcernErrors")
        if isinstance(details.get(name), list)
        for entry in details[name]
    ]
    found = [entry.get("code") for entry in entries if isinstance(entry, dict)]
    return [code for code in found if isinstance(code, int)]


def _of_smtp(error: BaseException, names: Mapping[str, str]) -> Blame | None:
    if names.keys() & {"SMTPConnectError", "SMTPServerDisconnected"}:
        return Blame.DEPENDENCY
    recipients = attribute(error, "recipients")
    if isinstance(recipients, Mapping) and recipients:
        replies = [reply[0] for reply in recipients.values() if isinstance(reply, tuple)]
        later = [codes.of_mail(reply) is Blame.DEPENDENCY for reply in replies]
        # Another recipient was refused for good: the server works.
        return Blame.DEPENDENCY if later and all(later) else Blame.NEITHER
    for name in ("smtp_code", "code"):
        code = attribute(error, name)
        if isinstance(code, int):
            return codes.of_mail(code)
    return None


def _of_limit(error: BaseException) -> Blame | None:
    """A word or a class named after a limit says more than the status, which may be 403."""
    blame = heaviest(map(codes.of_word_beside_a_status, words_of_a_service(error)))
    if blame is not None:
        return blame
    limited = any(codes.BUSY_NAME.search(name) for name, _ in names_of(error))
    if limited and not _is_mistake(error):
        return Blame.DEPENDENCY
    return Blame.DEPENDENCY if _says_later(error) and http_status(error) == FORBIDDEN else None


def _says_later(error: BaseException) -> bool:
    """True if the answer's headers say that a later request may be let in."""
    holders = (attribute(error, "response"), error)
    return any(
        header(headers, "Retry-After") or header(headers, "X-RateLimit-Remaining") == "0"
        for headers in (attribute(holder, "headers") for holder in holders)
    )


def _of_status(error: BaseException) -> Blame | None:
    status = http_status(error)
    return None if status is None else blame_of_status(status)


def is_throttle(error: BaseException) -> bool:
    """True if a dependency that works refused a request because there are too many. Never raises.

    By what the error's code, word or class is called.
    """
    response, status = attribute(error, "response"), answer(error, "code")
    names = [
        within(response, "Error", "Code") if isinstance(response, Mapping) else None,
        attribute(status, "name"),
        *error_words(error),
        *(name for name, _ in names_of(error)),
    ]
    return any(isinstance(name, str) and codes.THROTTLE_NAME.search(name) for name in names)


def _of_error_word(error: BaseException) -> Blame | None:
    return heaviest(map(codes.of_word, error_words(error)))


def _of_system(error: BaseException) -> Blame | None:
    by_class = isinstance(error, ConnectionError | TimeoutError)
    by_number = isinstance(error, OSError) and error.errno in codes.NETWORK
    return Blame.DEPENDENCY if by_class or by_number else None


def _of_tries(error: BaseException) -> Blame | None:
    """By the errors of several hosts or items, if it holds them."""
    # Such an error may hold itself.
    speakers = [speak for speak in _SPEAKERS if speak is not _of_tries]
    return heaviest(_said(each, speakers) for each in tried(error))


def _of_names(error: BaseException) -> Blame | None:
    mistake = _is_mistake(error)
    for name, library in names_of(error):
        blame = codes.of_name(name, library)
        if blame is not None and not (mistake and blame is Blame.DEPENDENCY):
            return blame
    return None


def _of_retriable(error: BaseException) -> Blame | None:
    """The clients of Kafka say of each error whether another try may help."""
    is_kafka = any(name == "KafkaError" for name, _ in names_of(error))
    retriable = is_kafka and attribute(error, "retriable") is True
    return Blame.DEPENDENCY if retriable else None


def _is_mistake(error: BaseException) -> bool:
    # A certificate that is not valid is a ValueError too, and an OSError.
    return isinstance(error, _MISTAKES) and not isinstance(error, OSError)


def _first_argument(error: BaseException) -> Any:
    return error.args[0] if error.args else None


_SPEAKERS: tuple[Speaker, ...] = (
    _of_our_own,
    _of_aws,
    _of_grpc,
    _of_database,
    _of_protocol,
    _of_limit,
    _of_status,
    _of_error_word,
    _of_system,
    _of_tries,
    _of_names,
    _of_retriable,
)
"""What of an exception speaks: the most exact first, names last."""
