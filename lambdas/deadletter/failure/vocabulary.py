"""Words of error texts: what Python, HTTP, AWS, databases and shops say of a failure.

A word that is not here may be data. So the list has no names, colours, seasons or animals, and
none of the words that people use as passwords.
"""

from __future__ import annotations


def words(text: str) -> frozenset[str]:
    """The words of a text with white space between them."""
    return frozenset(text.split())


WORDS = words(
    """
    a abandoned able aborted aborting about above absent absolute abstract abuse accept
    acceptable accepted accepts access accessed account accumulated acknowledge acknowledged
    acquire acquired action actions activation active actively actual ad add added additional
    address addresses adequate adjust adjusted admin administrator admitted advance affected
    after again against age agent aggregate ago ahead ain alert algorithm alias aliased aliases
    align alike alive all allocate allocated allocation allow allowance allowed allowing alone
    along alphanumeric alpn already also alt alter alternate alternatives altogether always
    ambiguous among amongst amount an analysis analyze and annotated annotation annotations
    annual annulled another answer answered answering any anything anyway apart api apology app
    apparently appear appears append appended appending application applied apply appropriate
    approval approve approved arbitrary archive are aren aren't arg args argument arguments arn
    arns around arrange array arrays arrive arrived as asc ascending ascii ask asked asking
    assert assertion assigned assigning assignment assistance associated assume assumed ast
    async asynchronous asyncio at attach attachable attached attachment attachments attempt
    attempted attempting attempts attr attribute attributes audience auth authenticate
    authenticated authentication author authorised authority authorization authorize authorized
    authorizer authors automatic automatically availability available avoid await awaitable
    awaited awaiting aware aws back backend backlog backoff backpressure backslash backwards bad
    badly balance bank banned bare base based basket batch batches be because been before begin
    beginning begins behaviour being belong below between big billing binary bind binding bits
    blacklist blank block blocked blocking blocklist bodies body bom bookable booked booking
    bool boolean booted borrower both bound boundary bounds break breaker bring broken broker
    brokers brought bucket buffer bug build building builtin bulkhead bundle busy but by byte
    bytearray bytecode bytes cache cached caching calculate calculated calculation call callable
    callables callback called calling calls came can can't cancel cancellation cancelled cannot
    canonical cap capabilities capability capable capacity capped capture captured card
    cardholder cards carriage carrier cart cascade case cast catalogue category caught cause
    caused causes causing cdata ceiling cent certificate certificates chain change changed
    changes channel channels char character characters charge chargeback charged charges chars
    charset check checkable checked checker checkout checks checksum checksums child children
    choice choices choose choosing chunk chunked cipher circuit circular circumstance claim
    claimed claims class classes classification cleanup clear client clients clock clone close
    closed closing closure cluster code codecs collation collect collected collection collision
    column columns combination combine combined come comes comma command commands comment commit
    commits committed common company compare compatibility compatible compensated compensation
    compilation compile compiled compiler compiling complain complaint complete completed
    completely completion complex compliant component components compress compressed compression
    compute concatenate concatenated conclude concrete concurrency concurrent condition
    conditional conditions config configuration configurations configure configured confirm
    confirmation confirmed conflict conflicting conflicts conform confusion congested congestion
    conjunction conn connect connected connecting connection connections connector consecutive
    consent consider consistency consistent console const constant constraint constraints
    construct constructed construction constructor consult consume consumed consumer consumers
    consumption contact contain contained container containing contains content contents context
    continuation contract contradiction contradicts contributed control conversion convert
    converted converter cookie cookies cooldown coordinator copy copying core coroutine correct
    correctly corrupt corrupted cost costs could couldn couldn't count counter counts couple
    coupon coupons courier covered crash crashed crashes create created creating creation
    creator credential credentials credit creditor criteria critical cross cryptography csv
    cumulative currency current currently cursor custom customer customers customization cut
    cycle daemon data database dataclass dataset date datetime day days dead deadline deadlock
    deadlocked deadlocks debit debtor decide decided decimal decision declaration declarations
    declare declared declaring decline declined declines decodable decode decoded decoding
    decompress decorated decorator decorators decrypt deduct deemed default defaults defect
    deferred deficient define defined defines defining definitely definition definitions
    degraded delay delayed delays delete deleted delimiter deliver delivered deliveries delivery
    delta demand denial denied denominator deny depend dependencies dependency depends depleted
    deployed deployment deposit deprecated deprecation depth derive derived descending describe
    description descriptions descriptor deserialization deserialize deserialized desired
    destination destinations detach detached detail details detect detected detection determine
    determined device devices dict dictionaries dictionary did didn didn't differ different
    differs difficult difficulty digest digit digits dimension direct direction directionality
    directive directives directly directories directory disable disabled disabling disagree
    disagrees disallow disallowed disambiguate discard discarded disconnect disconnected
    discontinued discount discouraged discover discovery dispatch dispatched display disposed
    dispute disputed dist distinct distribution distributions divide division divisor dlq dns do
    document documentation documents does doesn doesn't domain don don't done double down
    download downstream draft drain drained dropped due dump dunning duplicate duplicated
    duplicates duplication duration during dynamic dynamically dynamodb each earlier effect
    either elapsed elasticsearch element elements eligibility eligible else elsewhere email
    embargo emergency emit employee emptied empty enable enabled encodable encode encoded
    encoder encoding encounter encountered encrypt encrypted encryption end ended endpoint
    endpoints ends enforced engage engine enough enqueue enrolled ensure enter entered entering
    entire entities entity entries entry entrypoint enum env environment environments equal
    equals equivalent errno erroneous error errors escalate escape escaped establish established
    estimate estimated etag evaluate event events every everything evicted evidence exact
    exactly example exceed exceeded exceeding exceedingly exceeds except exception exceptions
    exchange exclude excluded exclusion exclusive exec executable execute executed executing
    execution exhausted exhaustion exhausts exist existent existing exists exit expect expected
    expecting expects experienced experiencing expiration expire expired expires expiry
    explanation explicit explicitly export expose exposed express expression expressions ext
    extend extended extension extensions external extra extract extracted extraction extras
    facility factory fail failed failing failover fails failure failures fallback fallen false
    family fatal fault faulty features fee fetch fetched fetching fewer field fieldname fields
    file filename filenames files fill filter filters final finalized find finding finish
    finished finishing finite first fit fits fix fixed flag flags float flooded floor flow
    fluctuating flush folder follow followed following follows for forbidden forbids force
    forced foreign forgot forgotten fork forking form format formatted formatting formed forward
    found fraction fragment frame frames fraud fraudulent freed freight frequency frequently
    from front fulfil fulfill fulfilled fulfilling fulfillment fulfilment full fully function
    functionality functions fund funds further future futures gap gateway gave generate
    generated generator generic get gets getting give given giving global globally goes going
    gone good goods got grant greater group grouping groups grpc guarantee guest had hadn hadn't
    halted handle handled handler handling handshake happen happened happening happens hard has
    hash hashes hasn hasn't have haven haven't having he head header headers health healthcheck
    healthy heap heartbeat held help helper her here hexadecimal hierarchy him his history hit
    hits hold holder host hosted hostname hosts hour hours how html http httpresponse https huge
    hung id idempotency idempotent identified identifier identifiers identity idle ids if ignore
    ignored ignores illegal illegible image imbalance immediately immutable impact implement
    implementation implemented implicit import importable imported importing imports impossible
    improper in inability inaccessible inactive inappropriate inbound incident include included
    includes including inclusion inclusive incoming incompatible incomplete inconsistency
    inconsistent incorrect incorrectly increment indeed indentation index indexed indicate
    indicators indices individual ineligible inexistent infinite info inform information
    infrastructure inherit inheritance inherited init initial initialization initialized
    initializer initiate initiated inline inner input inputs insensitive insert inside insolvent
    inspection install installation installed installs instance instances instantiate
    instantiated instead insufficient insurance int integer integers integral integration
    integrity intended interface interfaces interim intermittent internal internals interpret
    interpreted interpreter interrupt interrupted interruption interval into invalid invalidated
    inventory inverted invocation invoice invoiced invoices invoked involved io ip irregular
    irreversible is isn isolation issue issuer issues it it's item items iter iterable iteration
    iterator its itself job join joiner json judged just jwt kafka keep keepalive keeps kept key
    keyfile keys keyword keywords kind knew know known label labels lacking lambda landed
    language lapsed large larger last lasted latency later latest latin latter layer layout lead
    leader leading leak lease least leave leaves leaving ledger left legacy legal len length
    less let lets letters level levels liable libraries library licence license like likely
    limit limitation limited limits line lines link list listed listener listeners listing lists
    literal livelock load loaded loader loaders loading local locale localhost locate located
    location locations lock locked locking log logged logger logging logic logical login long
    longer look looked looking looks lookup loop lose loses losing loss lost low lower lowercase
    machine made mail main maintain maintenance make makes making malformed malfunction manage
    managed mandate mandatory manifest manual manually manufacturer many map mapping mappings
    margin market match matched matches matching matter max maximal maximum may me mean meaning
    means meant meanwhile measure mechanism media member members membership memory mention
    mentioned merchant merchants merge merging message meta metadata method methods middleware
    might migrated migration mime min mine minimum minor minutes misaligned misconfigured
    mismatch mismatched misplaced misrouted missed misses missing misspelled mistake misuse
    mitigate mod mode model models moderation modification modified modifier modify module
    modules momentarily mongo mongodb monitor month more most move moved much multi multipart
    multiple multiprocessing must mustn mustn't mutate mutation mutex mutually my mysql name
    named names namespace namespaces naming necessary need needed needing needs negative
    neighbor neither nest nested nesting network networks never new newer newline newlines next
    no nobody node nodes non nonce none nonempty nonetype nonexistent nonnegative nor normal
    normalization normalized normally not noted nothing notice noticed notify null nullable num
    number numbered numbering numbers numeric oauth object objects obsolete obtain obtained
    obviously occupied occurred occurrence occurs octal octet odd of off offered offline offset
    okay old older omit omitted on onboarding once one ones ongoing online only oom op open
    opened opening operand operating operation operational operations operator optimization
    optimize option optional options or oracle order ordered ordering orders org organizations
    origin original orphan orphaned other otherwise our out outage outbound outcome outdated
    outer outgoing output outside outstanding over overdraft overdue overflow overflowed overlap
    overlapping overload overloaded overridden override overrides overrun oversized overwhelmed
    overwrite overwritten owe own owned owner package packages padding page paged pagination
    paid pair pairs parallel param parameter parameters params parcel parent parse parser
    parsers parsing part partial partially participant partition partner parts pass passed
    passenger passing password patch patched path paths pattern patterns paused pausing pay
    payable payee payer paying payload payment payments payout peer penalty pending per percent
    perform performed performing period permanent permanently permission permissions permit
    permitted persist persisted persistent picked piece pipe pipeline place placed placeholder
    places plan planned planning platform platforms plausible please plus pod point pointer
    points policies policy policyholder poll polled polling pool port portion position
    positional positive possible post postal postcode postgres postgresql postpone precedence
    preceding precondition predicate preferred prefix prefixes premium prepare prepared prepares
    prepended presence present prevent prevented prevents previous previously price priced
    prices pricing primary principal print priority private privilege privileges probably
    problem problematic proceed proceeding process processed processes processing processor
    produce producer producers product products profile program progress prohibit prohibited
    project projects prolonged promised promotion prompt proof proper properly properties
    property proposal protect protected protocol protocols provide provided provider provides
    provision provisioned provisioning proxies proxy public publish published publisher pull
    pulled purchase purchased purged purpose put python qualified quantities quantity query
    question queue queued queueing quickly quit quota quotation quote quoted quotes raise raised
    ran random range rate rather ratio reach reachable reached reaching reaction read readable
    reader reading readonly ready realized really reason reasons reassigned rebalance
    rebalancing recalculate receipt receive received receiver recent recently recheck recipient
    recipients recognised recognized recommended reconcile reconnect record recorded records
    recover recoverable recovered recovering recovery recursion recursive redefine redefines
    redefinition redirect redirects redis reduce refer reference referenced references refers
    refresh refreshed refund refunded refunds refuse refused refuses refusing regarding regex
    region register registered registration registry regular reject rejected rejection rejects
    related relation relations relative relay release released relevant reliable relies rely
    remain remaining remains remember remote removal remove removed rename renamed renew renewal
    rent reopen reopened repair repeat repeated repeatedly replace replay replayed replica
    replicas replicated replication replied reply report reported reporting repository represent
    representing reproduces request requested requests requeue requeued require required
    requirement requirements requires reread reschedule resend reservation reservations reserve
    reserved reset resolution resolve resolved resolver resolving resource resources
    respectively responded responding response responses responsive restart restarted restarting
    restore restored restrict restriction result resulting results resume resumed retain
    retained retention retired retriable retried retries retrieval retrieve retrieving retry
    retryable return returned returning returns reuse revalidate reverse revert reverted review
    reviewed revocation revoke revoked rewind rewrite rid right risk role rollback rolled root
    round rounds route routed routing row rows rule rules run runnable runner running runtime
    sale same sanctions satisfied satisfy saturated save saved savepoint scalar scan scanning
    schedule scheduled scheduler schema schemas scheme schemes scope scoped script sdk search
    seat seats second secondary seconds secret secrets section secure security see seekable
    seeking seem seems seen segment select selected selection selector self semantic semaphore
    send sender sending sense sent sep separate separated separately separator separators
    sequence sequences serial serialise serializable serialization serialize serializer serious
    serve served server service session set sets setting settings settle settled settlement
    several shard shards share shared she shift shipment shipments shipped shipping shop short
    shortage shorter shortfall should shouldn shouldn't show showed shown shows shut shutdown
    shutting side sidecar sign signal signature signed signing silently similar simple simply
    simultaneous since single size skip skipped slated slice slightly slot slow slower smaller
    smtp snapshot sns so socket sockets sold solution solve some somehow something soon sort
    sorted source sources spam speak special specific specification specified specifier
    specifiers specifies specify specifying speed spent split spoken sql sqlite sqlstate sqs ssh
    ssl sslcontext sslsocket stable stack stale stalled standalone standard standby standing
    start started starting starts state statement states static statically staticmethod status
    stay std stderr stdin stdout step steps still stock stocks stop stopped stopping storage
    store stored str stranded strange strategy stream streamed streaming streams strict strictly
    string strings structure structures sts stuck subclass subclassed subclasses subdirectories
    subdirectory subdomain subject submit submitted submitting subnet subpath subprocess
    subprotocol subscriber subscript subscriptable subscripted subscription subscriptions
    subsequent subset substitute substituted substitution subsystem succeed succeeded success
    successful successfully such suddenly suffers sufficient suffix suggests suitable suite sum
    summary supplied supplier supplies supply support supported supports supposed sure surpass
    surpassed suspect suspend suspended suspension suspicious sustain swap switch symbol
    symbolic symbols symlink sync synchronous syntax system systems table tables tablespace tag
    tags tail take taken takes taking talk talking target targets task tasks tax taxes tcp
    teapot technical tell template temporarily temporary tenant tenants terminal termination
    terms tested text than that that's the their them theme then there therefore these they
    thing things think third this though thought thread three threshold threw throttle throttled
    throttles throttling through throughput throw throws thus ticket tickets till time timed
    timedelta timely timeout timeouts timer times timestamp timestamps timezone timing title tls
    to together token tokenize tokens tolerance tolerated too took top topic total touched
    toward towards trace traceback track tracking trade traffic trailer trailers trailing
    transaction transactions transfer transfermanager transferred transform transient transit
    transition transmission transmit transport treated tree trial tried tries trigger triggered
    trip tripped trouble true truncate truncated trust trusted trustworthy truth try trying ttl
    tunnel tuple tuples turn turned twice two type typed types typing udp unable unacceptable
    unaccepted unacknowledged unallocated unauthenticated unauthorised unauthorized
    unavailability unavailable unbalanced unbooked unbuffered unclear unclosed uncommitted
    uncompressed unconfirmed undefined undeliverable undelivered under underflow underlying
    underscore underscores underway unescaped unexpected unexpectedly unfinished unfortunately
    unfulfilled unhandled unhealthy unicode union unique unit units universal unix unknown
    unless unlikely unlock unlocked unmatching unnecessary unpack unpacked unpaid unparsed
    unprocessable unprocessed unreachable unreadable unrecognised unrecognized unregistered
    unresolved unresponsive unsafe unsent unserviceable unset unsettled unsold unspecified
    unstable unsuccessful unsupported unsure unterminated until untrusted unused unverified
    unwrapped unwrapping up upcoming update updated upgrade upgrading upload uploads upon upper
    uppercase upstream urgent uri url usable usage use used useful user userguide username users
    uses using usually utc utcoffset utf util utility uuid vacant valid validate validated
    validation validationerror validator value values vanished varchar variable variables
    variance variant vary vehicle vendor vendors verification verified verify version versions
    via view violate violated violates violating violation void voided volume voucher vouchers
    wait waited waiter waiting waits wallet want warehouse warehouses warned warning warnings
    warranty was wasn wasn't watchdog way we webhook websocket week weight well were weren
    weren't what whatever when whenever where whereas whether which while whitespace whole whose
    width wildcard wildcards will willing window windows wish with withdrawal withdrawn withheld
    within without won won't wonder word work worked worker workers workflow working works worse
    worst would wouldn wouldn't wrap wrapped wrapper writable write writer writes writing
    written wrong xml yaml year yet you you're your yourself zero zip zipfile zlib zone
    """
)
"""In lower case; the plural of a word is a word too."""


def is_word(text: str) -> bool:
    """True for a word of the vocabulary, in any case."""
    word = text.lower()
    return word in WORDS or (word.endswith("s") and word[:-1] in WORDS)
