"""What the codes, numbers and class names of well-known libraries say of the dependency.

From the libraries' own documentation. None is a code that says nothing by itself.
"""

from __future__ import annotations

import errno
import re

from deadletter.contract import Blame
from deadletter.failure.vocabulary import words

_DEPENDENCY, _NEITHER = Blame.DEPENDENCY, Blame.NEITHER
_CONFIGURATION = Blame.CONFIGURATION


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(word) for word in text.split())


NETWORK = frozenset(
    {
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.ENETDOWN,
        errno.ENETRESET,
        errno.ENETUNREACH,
        errno.ENOTCONN,
    }
)
"""Errors of the operating system about the network that have no class of their own in Python."""

# AWS: compared in lower case, because event streams write the first letter small.
_AWS_DEPENDENCY = words(
    """
    activestatementsexceededexception baddigest bandwidthlimitexceeded
    concurrentrunsexceededexception conditionalrequestconflict
    executionlimitexceeded idpcommunicationerror insufficientcapacityexception
    limitexceededexception modelstreamerrorexception operationaborted overlimit
    priorrequestnotcomplete provisionedthroughputexceeded provisionedthroughputexceededexception
    replicatedwriteconflictexception requestlimitexceeded retryableconflictexception
    servicequotaexceededexception slowdown toomanyinvalidationsinprogress transactionconflict
    transactionconflictexception
    transactioninprogressexception
    """
)
_AWS_BUSY = re.compile(
    r"throttl|toomanyrequest|unavailable|timeout|timedout|notready|resuming|"
    r"internal(error|failure|serv|stream|dep)"
)
_AWS_CONFIGURATION = words(
    """
    allaccessdisabled authfailure authorizationheadermalformed clusternotfoundexception
    configurationsetdoesnotexist
    configurationsetdoesnotexistexception decryptionfailure disabledexception
    httpendpointnotenabledexception incompletesignature invalidsecurity invalidsignatureexception
    invalidtoken invalidtokenid kmsdisabled kmsdisabledexception kmsinvalidstate
    kmsinvalidstateexception kmsnotfound kmsnotfoundexception kmsoptinrequired
    mailfromdomainnotverifiedexception missingauthenticationtoken
    missingauthenticationtokenexception nosuchbucket optinrequired parameternotfound
    permanentredirect platformapplicationdisabled requestexpired requesttimetooskewed
    signaturedoesnotmatch
    statemachinedoesnotexist subscriptionrequiredexception tokenrefreshrequired
    """
)
_AWS_REFUSED = re.compile(
    r"accessdenied|notauthorized|unauthorized|unrecognizedclient|authorizationerror|forbidden|"
    r"expiredtoken|invalidclienttokenid|invalidaccesskey|resourcenotfound|nonexistentqueue|"
    r"queuedoesnotexist|databasenotfound|secretserror|sendingpaused"
)


# Operations whose target is part of the configuration, where other services say the same of data.
_AWS_TARGETED = frozenset(
    {
        *("Decrypt", "Encrypt", "GenerateDataKey", "Publish", "PublishBatch", "ReEncrypt"),
        *("Sign", "Subscribe", "Verify"),
    }
)
_AWS_MISSING = frozenset({"notfound", "notfoundexception"})

# A task of Step Functions that a message names by its token: another service says so of itself.
_AWS_OF_TASK = frozenset({"invalidtoken", "tasktimedout"})


def of_aws(code: str, operation: object = None) -> Blame | None:
    """By the error code of an AWS service, and the name of the operation that it refused."""
    name = code.lower().rpartition(".")[2]
    if name in _AWS_MISSING and str(operation) in _AWS_TARGETED:
        return _CONFIGURATION
    if name in _AWS_OF_TASK and str(operation).startswith("SendTask"):
        return None
    if name in _AWS_CONFIGURATION or _AWS_REFUSED.search(name):
        return _CONFIGURATION
    return _DEPENDENCY if name in _AWS_DEPENDENCY or _AWS_BUSY.search(name) else None


_GRPC = {
    "UNAVAILABLE": _DEPENDENCY,
    "DEADLINE_EXCEEDED": _DEPENDENCY,
    "RESOURCE_EXHAUSTED": _DEPENDENCY,
    "INTERNAL": _DEPENDENCY,
    "UNKNOWN": _DEPENDENCY,
    "DATA_LOSS": _DEPENDENCY,
    "UNAUTHENTICATED": _CONFIGURATION,
    "PERMISSION_DENIED": _CONFIGURATION,
    "UNIMPLEMENTED": _CONFIGURATION,
    "INVALID_ARGUMENT": _NEITHER,
    "NOT_FOUND": _NEITHER,
    "ALREADY_EXISTS": _NEITHER,
    "FAILED_PRECONDITION": _NEITHER,
    "OUT_OF_RANGE": _NEITHER,
    "ABORTED": _NEITHER,
    "CANCELLED": _NEITHER,
}


def of_grpc(name: object) -> Blame | None:
    """By the name of a gRPC status."""
    return _GRPC.get(name) if isinstance(name, str) else None


# SQLSTATE: its first two characters are a class. Of each class the rest is as the class says.
_SQL_CLASSES = {
    **dict.fromkeys(("08", "40", "53", "57", "58", "XX"), _DEPENDENCY),
    "28": _CONFIGURATION,
    # A general error, a warning and success say nothing.
    **dict.fromkeys(("HY", "00", "01", "02")),
}
_SQL = {
    # After a failover the connection leads to a replica.
    "25006": _DEPENDENCY,
    "25P03": _DEPENDENCY,
    "25P04": _DEPENDENCY,
    "55P03": _DEPENDENCY,
    "HYT00": _DEPENDENCY,
    "HYT01": _DEPENDENCY,
    "40002": _NEITHER,
    "3D000": _CONFIGURATION,
    "42501": _CONFIGURATION,
    "IM002": _CONFIGURATION,
}
SQLSTATE = re.compile(r"(?=.*\d)[0-9A-Z]{5}")


def of_sqlstate(state: str) -> Blame | None:
    """By the SQLSTATE of a database."""
    return _SQL[state] if state in _SQL else _SQL_CLASSES.get(state[:2], _NEITHER)


NUMBERS = {
    "mysql": {
        _DEPENDENCY: _numbers(
            """
            1021 1037 1038 1040 1041 1042 1043 1047 1053 1077 1079 1080 1129 1152
            1158 1159 1160 1161 1184 1203 1205 1206 1213 1226 1290 1317 1792 1836
            1927 1969 2000 2001 2002 2003 2004 2005 2006 2007 2008 2011 2012 2013
            2026 2027 2055 3024 3101 3572 4031 9501
            """
        ),
        _CONFIGURATION: _numbers(
            "1044 1045 1049 1130 1142 1143 1227 1370 1524 1698 1820 1862 2059 2061 3118"
        ),
    },
    # With those of Azure, and of pymssql where there is no connection.
    "sqlserver": {
        _DEPENDENCY: _numbers(
            """
            1204 1205 1222 3960 4221 10928 10929 20002 20003 20004 20006 20009 40197 40501
            40613 49918 49919 49920
            """
        ),
        _CONFIGURATION: _numbers("229 4060 18456"),
    },
    "snowflake": {
        _CONFIGURATION: _numbers(
            """
            606 251001 251005 251006 251008 390100 390101 390102 390104 390114 390144 390189
            390195 390303 390318 390422
            """
        ),
    },
    "clickhouse": {
        _DEPENDENCY: _numbers(
            """
            159 160 202 203 209 210 225 241 242 243 252 254 279 285 286 297 319 364 369 999
            """
        ),
        _CONFIGURATION: _numbers("81 164 192 193 194 195 291 497 516"),
    },
    "oracle": {
        _DEPENDENCY: _numbers(
            """
            18 20 28 54 60 257 1033 1034 1089 1090 1092 2391 3113 3114 3135 8177 12170
            12514 12516 12518 12519 12520 12528 12537 12541 12543 12545 12547 12571 12609
            30006
            """
        ),
        _CONFIGURATION: _numbers("1005 1017 1031 1045 12154 28000 28001 28040"),
    },
    # Errors of the driver itself, which begin with DPY or DPI.
    "oracle thin": {_DEPENDENCY: _numbers("1001 4011 4024 6000 6001 6003 6005")},
    "mongo": {
        _DEPENDENCY: _numbers(
            """
            6 7 24 43 50 64 84 89 91 112 133 134 189 202 246 251 262 317 384
            9001 10058 10107 11600 11602 13388 13435 13436 16500
            """
        ),
        _CONFIGURATION: _numbers("11 13 18 33 8000"),
    },
    "facebook": {
        _DEPENDENCY: _numbers("1 2 4 17 32 341 613"),
        _CONFIGURATION: _numbers("3 10 102 190 200"),
    },
    # Replies that want a login or an account, of SMTP and of FTP.
    "mail": {_CONFIGURATION: _numbers("530 532 534 535 538")},
    "amqp": {_DEPENDENCY: _numbers("320 506 541"), _CONFIGURATION: _numbers("402 403 404 530")},
    "websocket": {_DEPENDENCY: _numbers("1001 1006 1011 1012 1013 1014 1015")},
    # Names that don't resolve, and connections that fail or break.
    "curl": {_DEPENDENCY: _numbers("5 6 7 16 18 28 35 52 55 56 92")},
}
"""Numbers of errors, by what has them and by what they say."""

_BLAME_BY_NUMBER = {
    vendor: {number: blame for blame, numbers in tables.items() for number in numbers}
    for vendor, tables in NUMBERS.items()
}


def of_number(vendor: str, number: object) -> Blame | None:
    """By the error number of a vendor; None if it is not one of the tables."""
    return _BLAME_BY_NUMBER[vendor].get(number) if isinstance(number, int) else None


# ODBC gives the number of SQL Server itself in the text, before the function that failed.
_ODBC = re.compile(r"\((\d{2,6})\) \(SQL\w{1,30}\)")


def of_odbc(text: str) -> Blame | None:
    """By the number of SQL Server in the text of an error of ODBC.

    None if the text has several, for one of them may be a value that it quotes.
    """
    numbers = set(_ODBC.findall(text))
    return of_number("sqlserver", int(numbers.pop())) if len(numbers) == 1 else None


_CLICKHOUSE = re.compile(r"\bCode: (\d{1,5})\.\s{1,3}DB::Exception")


def of_clickhouse(text: str) -> Blame | None:
    """By the first code in the text of an error of ClickHouse, before what it quotes."""
    number = _CLICKHOUSE.search(text)
    return of_number("clickhouse", int(number[1])) or _NEITHER if number else None


_ORACLE = re.compile(r"\b(ORA|DPY|DPI)-0*(\d+)")


def of_oracle(text: str) -> Blame | None:
    """By the first code in the text of an error of Oracle."""
    code = _ORACLE.search(text)
    if code is None:
        return None
    family, number = code[1], int(code[2])
    if family != "ORA":
        return of_number("oracle thin", number)
    return of_number("oracle", number) or _NEITHER


_KAFKA_DEPENDENCY = words(
    """
    _ALL_BROKERS_DOWN _MSG_TIMED_OUT _RESOLVE _SSL _TIMED_OUT _TIMED_OUT_QUEUE _TRANSPORT
    _WAIT_CACHE _WAIT_COORD BROKER_NOT_AVAILABLE COORDINATOR_LOAD_IN_PROGRESS
    COORDINATOR_NOT_AVAILABLE GROUP_COORDINATOR_NOT_AVAILABLE GROUP_LOAD_IN_PROGRESS
    KAFKA_STORAGE_ERROR LEADER_NOT_AVAILABLE NETWORK_EXCEPTION NOT_CONTROLLER NOT_COORDINATOR
    NOT_COORDINATOR_FOR_GROUP NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND
    NOT_LEADER_FOR_PARTITION OFFSET_NOT_AVAILABLE PREFERRED_LEADER_NOT_AVAILABLE
    REPLICA_NOT_AVAILABLE REQUEST_TIMED_OUT THROTTLING_QUOTA_EXCEEDED UNSTABLE_OFFSET_COMMIT
    """
)
_KAFKA_CONFIGURATION = words("_AUTHENTICATION _UNKNOWN_TOPIC UNKNOWN_TOPIC_OR_PART")
_KAFKA_REFUSED = ("AUTHENTICATION_FAILED", "AUTHORIZATION_FAILED")


def of_kafka(name: str) -> Blame:
    """By the name of an error of librdkafka."""
    if name in _KAFKA_CONFIGURATION or name.endswith(_KAFKA_REFUSED):
        return _CONFIGURATION
    return _DEPENDENCY if name in _KAFKA_DEPENDENCY else _NEITHER


# Redis begins the text of an error with its kind.
_REDIS = {
    **dict.fromkeys(
        words("BUSY CLUSTERDOWN LOADING MASTERDOWN MISCONF NOREPLICAS OOM READONLY TRYAGAIN"),
        _DEPENDENCY,
    ),
    **dict.fromkeys(words("DENIED NOAUTH NOPERM WRONGPASS"), _CONFIGURATION),
}


def of_redis(text: str) -> Blame | None:
    """By the first word of an error of Redis."""
    if text.startswith("ERR max number of clients"):
        return _DEPENDENCY
    return _REDIS.get(text.partition(" ")[0])


def of_mail(code: int) -> Blame | None:
    """By the reply code of SMTP or FTP: 4xx is later, 5xx refuses this message or file."""
    if code in _BLAME_BY_NUMBER["mail"]:
        return _CONFIGURATION
    return {4: _DEPENDENCY, 5: _NEITHER}.get(code // 100)


# The codes of IMAP (RFC 5530) and POP (RFC 2449, RFC 3206) in brackets.
_IN_BRACKETS = re.compile(r"(?:b['\"])?(?:-ERR )?\[([A-Z][A-Z/-]{1,40})[\] ]")
_MAILBOX = {
    **dict.fromkeys(words("IN-USE INUSE LOGIN-DELAY SERVERBUG SYS/TEMP UNAVAILABLE"), _DEPENDENCY),
    **dict.fromkeys(
        words(
            """
            AUTH AUTHENTICATIONFAILED AUTHORIZATIONFAILED CONTACTADMIN EXPIRED NOPERM
            PRIVACYREQUIRED SYS/PERM
            """
        ),
        _CONFIGURATION,
    ),
}


def of_mailbox(text: str) -> Blame | None:
    """By the code at the beginning of the text of an error of IMAP or POP."""
    code = _IN_BRACKETS.match(text)
    return _MAILBOX.get(code[1]) if code else None


# WS-Security says of a login what HTTP says with 401.
_SOAP_REFUSED = words(
    "FailedAuthentication FailedCheck InvalidSecurity InvalidSecurityToken MessageExpired"
)


def of_soap(code: str) -> Blame:
    """By the code of a fault: SOAP 1.1 says Server, 1.2 Receiver."""
    if code.rpartition(":")[2] in _SOAP_REFUSED:
        return _CONFIGURATION
    return _DEPENDENCY if code.endswith(("Server", "Receiver")) else _NEITHER


_LIMIT_WORD = re.compile(
    r"rate_?limit|throttl|too_many_requests|over_query_limit|^quota_exceeded$|^unable_to_lock_row$|"
    r"^(daily|message|request)_limit_exceeded$|^(service_)?overload(ed)?(_error)?$"
)
_PAYMENT_WORD = re.compile(r"^(insufficient_quota|billing_(error|not_enabled|not_active))$")
_BUSY_WORD = re.compile(
    r"time_?d?_?out|unavailable|internal|server_error|fatal_error|^api_error|unknown_error|"
    r"too_many|temporar|overload|busy|maintenance|try_again"
)
_REFUSED_WORD = re.compile(
    r"auth|token|scope|permission|denied|forbidden|credential|invalid_(client|grant)|"
    r"account_inactive|not_allowed|not_granted|login|two_factor"
)


def of_word_beside_a_status(word: str) -> Blame | None:
    """By the word for an error in an answer, if it says more than the answer's status."""
    if _PAYMENT_WORD.search(word):
        return _CONFIGURATION
    return _DEPENDENCY if _LIMIT_WORD.search(word) else None


def of_word(word: str) -> Blame:
    """By the word for an error in an answer with status 200."""
    known = of_word_beside_a_status(word)
    if known is not None:
        return known
    if _BUSY_WORD.search(word):
        return _DEPENDENCY
    return _CONFIGURATION if _REFUSED_WORD.search(word) else _NEITHER


NAMED = {
    _DEPENDENCY: words(
        """
        APIConnectionError AutoReconnect BadStatusLine BrokenResourceError
        BrokerNotAvailableError BusyLoadingError CertificateError ChunkedEncodingError
        ClientConnectionResetError ClientOSError ClientPayloadError ClientSSLError
        ClusterDownError ClusterError ConnectionLoss ContentTooShortError
        CoordinatorLoadInProgressError CoordinatorNotAvailableError DisconnectionError
        DownForMaintenanceError gaierror GroupCoordinatorNotAvailableError
        GroupLoadInProgressError herror IncompleteRead IncompleteReadError InternalServerError
        InternalServerException LeaderNotAvailableError MasterDownError MasterNotFoundError
        NetworkError NoBrokersAvailable NodeNotReadyError NoHostAvailable NoNameservers
        NoServersError NotCoordinatorError NotEnoughReplicasAfterAppendError
        NotEnoughReplicasError NotLeaderForPartitionError NotMasterError NotPrimaryError
        NoValidConnectionsError OverloadedError ProtocolError ProxyCommandFailure ProxyError
        ReadOnlyError RedisClusterException RemoteProtocolError ReplicaNotAvailableError
        RetriesExceededError ServerDisconnectedError ServiceRequestError ServiceResponseError
        SessionExpired SessionExpiredError SlotNotCoveredError SSLCertVerificationError SSLError
        StreamLostError TooSlowError TryAgainError TTransportException Unavailable
        UnavailableError VaultDown
        aiodns.DNSError azure.ServiceBusQuotaExceededError
        _pulsar.BrokerPersistenceError _pulsar.ServiceUnitNotReady
        _pulsar.TooManyLookupRequestException
        botocore.CapacityNotAvailableError botocore.ChecksumError
        botocore.FlexibleChecksumError botocore.HTTPClientError braintree.ServerError
        cassandra.CoordinationFailure cassandra.IsBootstrappingErrorMessage cassandra.ServerError
        dns.NXDOMAIN dns.NoAnswer google.RetryError google.TransportError httpcore.CloseError
        httpcore.ReadError httpcore.WriteError httpx.CloseError httpx.ReadError httpx.WriteError
        imaplib.abort influxdb.InfluxDBServerError ldap.BUSY ldap.CONNECT_ERROR ldap.SERVER_DOWN
        ldap.TIMEOUT ldap.UNAVAILABLE ldap3.LDAPBusyResult ldap3.LDAPCommunicationError
        ldap3.LDAPMaximumRetriesError ldap3.LDAPServerPoolExhaustedError
        ldap3.LDAPTimeLimitExceededResult ldap3.LDAPUnavailableResult nats.NoRespondersError
        neo4j.DatabaseError neo4j.TransientError paramiko.SSHException
        pymemcache.MemcacheServerError redis.InvalidResponse redis.OutOfMemoryError
        requests.RetryError stomp.ConnectFailedException stomp.NotConnectedException
        stripe.APIError telegram.RetryAfter trino.TrinoInternalError typesense.ServerError
        urllib3.ResponseError zeep.TransportError
        """
    ),
    _CONFIGURATION: words(
        """
        AccessRefused AuthorizationError AuthorizationException BadHostKeyException
        ClusterAuthorizationFailedError ConfigNotFound ConfigParseError ConfigurationError
        CredentialRetrievalError EndpointProviderError GroupAuthorizationFailedError
        ImproperlyConfigured InvalidClientError InvalidEndpointConfigurationError LDAPBindError
        LoginRefreshRequired MessagingEntityNotFoundError MetadataRetrievalError
        NoAuthTokenError NoPermissionError NoRegionError PasswordRequiredException
        ProbableAccessDeniedError ProfileNotFound SMTPNotSupportedError SSOTokenLoadError
        TokenExpiredError TokenRetrievalError TopicAuthorizationFailedError
        UnauthorizedSSOTokenError UnknownEndpointError UnknownTopicOrPartitionError
        asyncssh.HostKeyNotVerifiable azure.MessagingEntityDisabledError
        azure.ServiceBusAuthorizationError google.RefreshError ldap.INVALID_CREDENTIALS
        ldap3.LDAPAuthMethodNotSupportedResult ldap3.LDAPAuthorizationDeniedResult
        ldap3.LDAPConfidentialityRequiredResult ldap3.LDAPInappropriateAuthenticationResult
        ldap3.LDAPInsufficientAccessRightsResult ldap3.LDAPStrongerAuthRequiredResult
        smbprotocol.LogonFailure smbprotocol.WrongPassword telegram.InvalidToken
        """
    ),
    _NEITHER: words(
        """
        ConnectionClosedOK DataError IntegrityError LocalProtocolError NotSupportedError
        ProgrammingError TimeoutStateError
        subprocess.TimeoutExpired telegram.BadRequest
        """
    ),
}
"""Class names. A name with a point belongs to one library only."""

_BLAME_BY_NAME = {name: blame for blame, names in NAMED.items() for name in names}
REFUSED_NAME = re.compile(
    r"(Authentication|Auth)(Error|Exception|Failed|Failure|FailedError|FailedException)$|"
    r"(AccessDenied|PermissionDenied|Unauthorized|Forbidden)(Error|Exception)?$|"
    r"Unauthenticated|(Invalid|No|Missing|Partial|Default)Credentials|ExpiredToken|InvalidApiKey|"
    r"CredentialUnavailable"
)
"""Parts of class names that say: the dependency does not let its caller in."""

BUSY_NAME = re.compile(
    r"RateLimit|Throttl|TooManyRequests|ServiceUnavailable|ServerUnavailable|ServerBusy|"
    r"BadGateway|Overloaded"
)
"""Parts of class names that say: the dependency wants fewer requests."""

_BROKEN = re.compile(r"Http5\d\d")
TIMEOUT_NAME = re.compile(r"Timeout|TimedOut|DeadlineExceeded")
"""Parts of class names that libraries raise for a call without an answer in time."""

NO_CONNECTION_NAME = re.compile(
    r"ConnectError|ConnectionError|ConnectorError|gaierror|UnreachableHost|"
    r"Communication(Error|Exception)|"
    r"Connection(Aborted|Closed|Exception|Failed|Failure|Lost|Reconnecting|Refused|Reset)"
)
"""Parts of class names that libraries raise for a connection that failed or broke."""


THROTTLE_NAME = re.compile(
    r"throttl|too_?many_?requests?|rate_?limit|slow_?down|resource_?exhausted|^quota_exceeded|"
    r"(request|bandwidth)_?limit_?exceeded|provisionedthroughputexceeded|"
    r"^limitexceededexception$",
    re.IGNORECASE,
)
"""Parts of codes, words and class names that say: this caller asks too often."""


def of_name(name: str, library: str) -> Blame | None:
    """By the name of a class and of its library."""
    known = _BLAME_BY_NAME.get(f"{library}.{name}") or _BLAME_BY_NAME.get(name)
    if known is not None:
        return known
    if REFUSED_NAME.search(name):
        return _CONFIGURATION
    patterns = (BUSY_NAME, _BROKEN, TIMEOUT_NAME, NO_CONNECTION_NAME)
    return _DEPENDENCY if any(pattern.search(name) for pattern in patterns) else None
