# ruff: noqa: E501, RUF001
"""Texts of errors with data in them: what must not remain of each, and what has to."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Leaky:
    """One text. `secrets` are divided by `|`, as is what `remains` of the text."""

    text: str
    secrets: str
    remains: str = ""
    body: str = "{}"


PROSE = [
    Leaky(
        "customer Anna Schmidt of Berlin is blocked", "anna|schmidt|berlin", "customer|is blocked"
    ),
    Leaky(
        "customer anna schmidt of berlin is blocked", "anna|schmidt|berlin", "customer|is blocked"
    ),
    Leaky(
        "no delivery to Baker Street 221b in London", "baker|street|221|london", "no delivery to"
    ),
    Leaky("Patient John Long has an open claim", "john|long", "has an open claim"),
    Leaky("Mark Price cannot pay", "mark|price", "cannot pay"),
    Leaky("user not found: swordfish", "swordfish", "user not found"),
    Leaky("order for ACME GmbH was rejected", "acme|gmbh", "order for|was rejected"),
    Leaky("cannot be shipped to Müller, Köln", "müller|ller|köln|ln,", "cannot be shipped to"),
    Leaky("клиент Иванов не найден, retry later", "иванов|клиент", "retry later"),
    Leaky("顧客 山田太郎 は存在しません: not found", "山田|太郎|顧客", "not found"),
    Leaky("العميل أحمد غير موجود: connection closed", "أحمد", "connection closed"),
    Leaky("ο πελάτης Παπαδόπουλος δεν βρέθηκε: timed out", "παπαδόπουλος", "timed out"),
    Leaky("Dear Anna, your order of gladioli failed", "anna|gladioli", "your order of|failed"),
    Leaky("name: Mark Price, city: Reading", "mark|price|reading", "name"),
    Leaky("Rejected by Dr. Field on Monday", "field|monday", "rejected by"),
    Leaky("diagnosis diabetes is not insured", "diabetes", "is not"),
    Leaky("tenant blue is over quota", "blue", "tenant|is over quota"),
    Leaky("customer order is blocked", "order", "customer|is blocked", body='{"name": "order"}'),
]

SECRETS = [
    Leaky("password is swordfish", "swordfish", "password"),
    Leaky("password: swordfish", "swordfish", "password"),
    Leaky("password is active", "active", "password is"),
    Leaky("the token was available", "available", "token was"),
    Leaky("your secret is changed", "changed", "secret is"),
    Leaky("password active", "active", "password"),
    Leaky("pin closed", "closed", "pin"),
    Leaky("the password was swordfish at that time", "swordfish", "password"),
    Leaky("password swordfish was rejected", "swordfish", "password"),
    Leaky("password = swordfish", "swordfish", "password"),
    Leaky("password is correct horse battery staple", "correct|horse|battery|staple", "password"),
    Leaky("passphrase: open the window again please", "open|window|again|please", "passphrase"),
    Leaky("secret long running index scan", "long|running|index|scan", "secret"),
    Leaky(
        "login failed (password is correct horse battery staple)",
        "correct|horse|battery",
        "login failed",
    ),
    Leaky("pwd correct horse", "correct|horse"),
    Leaky(
        "Password for user anna is: open sesame now", "anna|open|sesame|now", "password for user"
    ),
    Leaky("wrong password provided: open sesame now", "open|sesame|now", "wrong password provided"),
    Leaky("the token is open", "open"),
    Leaky("token=open", "open"),
    Leaky("token = open door", "open|door"),
    Leaky("token->swordfish", "swordfish"),
    Leaky("token => swordfish", "swordfish", "token"),
    Leaky("token := swordfish", "swordfish", "token"),
    Leaky(
        "PASSWORD:\n  correct horse\n  battery staple", "correct|horse|battery|staple", "password"
    ),
    Leaky("api_key: order", "order"),
    Leaky("apiKey order was refused", "order"),
    Leaky("client-secret = order", "order"),
    Leaky("DB_PASSWORD is order", "order"),
    Leaky("x-api-key: order", "order"),
    Leaky("your pin is one two three four", "one|two|three|four"),
    Leaky("the verification code is seven two nine", "seven|two|nine"),
    Leaky("Authorization: Basic b3BlbjpzZXNhbWU=", "b3blbj"),
    Leaky("authorization: bearer order", "order"),
    Leaky("Bearer order refused", "order"),
    Leaky("Das Passwort ist geheim", "geheim"),
    Leaky("пароль: order", "order|пароль"),
    Leaky("password (swordfish) is wrong", "swordfish", "password"),
    Leaky("password [swordfish] is wrong", "swordfish", "password"),
    Leaky("password is 'it''s open'", "open|s open"),
    Leaky("password is hunter2, try again", "hunter", "password"),
    Leaky("user=anna password=order host=db", "anna|order|host=db"),
    Leaky("Set-Cookie: session=order; Path=/", "order|/"),
    Leaky("cookie session order is unknown", "order"),
    Leaky("credentials order and value rejected", "order|value"),
    Leaky("passcode–order", "order"),
    Leaky("password\tis\torder", "order"),
    Leaky("password… order", "order"),
    Leaky("private key: order", "order"),
    Leaky(
        "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBgkq\nwordsalad\n-----END PRIVATE KEY-----",
        "miie|wordsalad",
    ),
    Leaky("the secret of the customer is order", "order"),
    Leaky("password mismatch between order and value", "order|value", "password mismatch"),
]

OTHER_LANGUAGES = [
    Leaky("das Passwort lautet offen und lang", "offen|lang", "passwort"),
    Leaky("Das Kennwort ist open order", "open|order"),
    Leaky("mot de passe: open order", "open|order"),
    Leaky("la contraseña es open order", "open|order"),
    Leaky("hasło: open order", "open|order"),
    Leaky("senha = open order", "open|order"),
    Leaky("パスワード: open order", "open|order"),
    Leaky("Kunde Anna Müller aus Köln hat Diabetes", "anna|ller|köln|diabetes|kunde"),
    Leaky("Ihre Mutter heißt Rosa Lang", "mutter|rosa|lang"),
    Leaky("Jean-Luc O'Neill van der Berg cannot pay", "jean|luc|neill|berg"),
    Leaky("María José de la Cruz is blocked", "mar|jos|cruz", "is blocked"),
    Leaky("customer Will May Grant cannot pay", "will|may|grant", "customer|cannot pay"),
    Leaky("patient grace long has no insurance", "grace", "has no insurance"),
    Leaky("mother's maiden name is long", "long"),
    Leaky("the security answer is market", "market"),
    Leaky("security question: first market", "market"),
    Leaky("my first pet is market", "market"),
    Leaky("write to anna at example dot com", "anna|example", "write to"),
    Leaky("write to anna dot market (at) mail (dot) example", "anna|market|mail"),
    Leaky("write to anna [at] market [dot] com", "anna|market"),
    Leaky("lives at 12 Market Street, 10115 Reading", "market|street|reading|12"),
    Leaky("lives at 12 market street, reading", "market|street|reading"),
    Leaky("his mother Rosa and his son Mark are covered", "rosa|mark"),
    Leaky("allergic to peanuts since 2019", "peanuts|allergic|2019"),
]

ROWS = [
    Leaky(
        'null value in column "city" of relation "orders" violates not-null constraint\n'
        "DETAIL:  Failing row contains (7, anna, open, null, 2026-01-01).",
        "anna|open|2026|city",
        "null value in column|violates not-null constraint|failing row contains",
    ),
    Leaky(
        "DETAIL:  Failing row contains (open, long, order",
        "open|long|order)",
        "failing row contains",
    ),
    Leaky(
        'duplicate key value violates unique constraint "customers_email"\n'
        "DETAIL:  Key (email)=(anna@example.com) already exists.",
        "anna|example",
        "duplicate key value violates unique constraint",
    ),
    Leaky("DETAIL: Key (name)=(open order) is not present in table", "open|order"),
    Leaky("DETAIL: Key (name, city)=(long, reading) already exists.", "long|reading"),
    Leaky("Duplicate entry 'anna' for key 'name'", "anna", "duplicate entry|for key"),
    Leaky(
        "UNIQUE constraint failed: customers.email", "customers.email", "unique constraint failed"
    ),
    Leaky("INSERT INTO orders VALUES (open, long)", "open|long"),
    Leaky("[SQL: INSERT INTO x (a) VALUES (%s)] [parameters: (open, long)]", "open|long"),
    Leaky("[parameters: {name: open, city: long}]", "open|long"),
    Leaky(
        "invalid input syntax for type integer: swordfish",
        "swordfish",
        "invalid input syntax for type integer",
    ),
    Leaky("Data too long for column 'name' at row 1", "", "data too long for column"),
    Leaky(
        "ORA-12899: value too large for column (actual: 30, maximum: 20)",
        "30|20",
        "value too large for column",
    ),
    Leaky('{"name": "anna", "open": true}', "anna|open|true"),
    Leaky(
        "bad order {name: open, items: [long, short]} here",
        "open|long|short|items",
        "bad order|here",
    ),
    Leaky("got dict(name=open)", "open"),
    Leaky("Expecting value: line 1 column 1 (char 0): open, long", "1", "expecting value"),
    Leaky("row 7: Anna,Long,Reading", "anna|long|reading"),
    Leaky("<name>anna</name> is invalid", "anna", "is invalid"),
    Leaky("<order>open</order>", "open"),
    Leaky(
        "Input should be a valid integer, unable to parse [type=int_parsing, input_value=open]",
        "open",
        "input should be a valid integer",
    ),
    Leaky("cannot parse name = open long", "open|long", "cannot parse"),
    Leaky("city=open long, again", "open|long"),
    Leaky("assert status == open", "open"),
]

SHAPES = [
    Leaky("GET https://u:p@host.example/a?b=c failed", "u:p|host|b=c", "failed"),
    Leaky("see www.example.com/open for help", "example|open", "see"),
    Leaky("cannot reach anna.internal", "anna", "cannot reach"),
    Leaky("postgres://anna:open@db/orders refused", "anna|open", "refused"),
    Leaky("Server=db;Database=open;User Id=anna;Password=long;", "db|open|anna|long"),
    Leaky("jdbc:mysql://db.internal/orders?user=anna&password=open timed out", "anna|open"),
    Leaky("AccountName=anna;AccountKey=b3Blbg==;EndpointSuffix=core", "anna|b3b|core"),
    Leaky("arn:aws:sqs:eu-west-1:111122223333:open does not exist", "1111|:open", "does not exist"),
    Leaky("AKIAIOSFODNN7EXAMPLE is not authorized", "akia", "is not authorized"),
    Leaky("jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhIn0.c2ln is expired", "eyj|c2ln", "is expired"),
    Leaky("c3dvcmRmaXNo is not base", "c3dv"),
    Leaky("token c3dvcmRm aXNo c3dv", "c3d|aXN"),
    Leaky("card 4111 1111 1111 1111 declined", "4111|1111", "card|declined"),
    Leaky("card 4111-1111-1111-1111 declined", "4111", "card|declined"),
    Leaky("IBAN DE89 3704 0044 0532 0130 00 is blocked", "de89|3704|0044", "is blocked"),
    Leaky("call +49 (30) 901820 again", "49|30|9018", "call|again"),
    Leaky("call 555-0199 again", "555|0199", "call|again"),
    Leaky("me@example.com bounced", "me@|example"),
    Leaky("Anna <anna@example.com> bounced", "anna|example"),
    Leaky("10.0.0.1:5432 refused the connection", "10.0", "refused the connection"),
    Leaky("no route to fe80::1%eth0", "fe80|eth0", "no route to"),
    Leaky("cannot open /home/anna/open.txt", "anna|txt", "cannot open"),
    Leaky("cannot open C:\\Users\\anna\\open order", "anna", "cannot open"),
    Leaky("id 7f3c9e4a-5b1d-4c2e-8f6a-0123456789ab is unknown", "7f3c|89ab", "id|is unknown"),
    Leaky("hash deadbeefcafe differs", "deadbeef", "hash|differs"),
    Leaky("coordinates 52.5200 N 13.4050 E are outside", "52|13", "are outside"),
    Leaky("born 1984-02-29, too young", "1984", "too"),
    Leaky("SSN 078-05-1120 is invalid", "078|1120", "is invalid"),
    Leaky("X-Amz-Signature=abcdef&X-Amz-Date=20260101 expired", "abcdef|2026"),
    Leaky("header X-User: open, X-City: long", "open|long"),
    Leaky("Host: open.example\r\nAccept: text\r\nX-Name: anna", "open|anna"),
    Leaky("swordfish", "swordfish"),
    Leaky("s w o r d f i s h", "s w|w o|r d"),
    Leaky("sword\u200bfish is wrong", "sword|fish", "is wrong"),
    Leaky("SWORDFISH IS WRONG", "swordfish", "is wrong"),
    Leaky("\x1b[31mswordfish\x1b[0m failed", "swordfish|31", "failed"),
    Leaky("no such product: gladiolus", "gladiolus", "no such product"),
    Leaky("no such product: value", "value", "no such product", body='{"p": "VALUE"}'),
    Leaky("no such product: values", "value", "no such product", body='{"p": "dmFsdWUgb3JkZXI="}'),
]

USEFUL = [
    Leaky("Connection refused", "", "Connection refused"),
    Leaky("[Errno 111] Connection refused", "111", "Connection refused"),
    Leaky("Read timed out. (read timeout=5)", "5", "Read timed out."),
    Leaky(
        "HTTPSConnectionPool(host='api.example', port=443): Max retries exceeded with url: /v1 (Caused by NewConnectionError('x'))",
        "api|443|v1",
        "Max retries exceeded with url",
    ),
    Leaky(
        "An error occurred (ThrottlingException) when calling the PutItem operation: Rate exceeded",
        "",
        "An error occurred|ThrottlingException|when calling the PutItem operation|Rate exceeded",
    ),
    Leaky(
        "An error occurred (AccessDenied) when calling the GetObject operation: Access Denied",
        "",
        "AccessDenied|GetObject|Access Denied",
    ),
    Leaky(
        "The security token included in the request is expired",
        "",
        "The security token included in the request is expired",
    ),
    Leaky(
        "The security token included in the request is invalid.",
        "",
        "The security token included in the request is invalid",
    ),
    Leaky(
        "password authentication failed for user anna",
        "anna",
        "password authentication failed for user",
    ),
    Leaky("the password is too short", "", "the password is too short"),
    Leaky("password is missing", "", "password is missing"),
    Leaky("Invalid API key provided", "", "Invalid API key provided"),
    Leaky("token has expired", "", "token has expired"),
    Leaky("the card was declined, try later.", "", "the card was declined, try later."),
    Leaky("deadlock detected", "", "deadlock detected"),
    Leaky("Internal Server Error", "", "Internal Server Error"),
    Leaky("503 Service Unavailable", "503", "Service Unavailable"),
    Leaky("Too Many Requests", "", "Too Many Requests"),
    Leaky("unsupported operand type(s) for +: 'int' and 'str'", "", "unsupported operand|for|and"),
    Leaky("'NoneType' object is not subscriptable", "", "object is not subscriptable"),
    Leaky("list index out of range", "", "list index out of range"),
    Leaky("division by zero", "", "division by zero"),
    Leaky(
        "can't read a not-null field (it isn't there)",
        "",
        "can't read a not-null field it isn't there",
    ),
    Leaky(
        "[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: unable to get local issuer certificate (_ssl.c:1006)",
        "1006",
        "certificate verify failed: unable to get local issuer certificate",
    ),
    Leaky("Name or service not known", "", "Name or service not known"),
    Leaky("canceling statement due to lock timeout", "", "statement due to lock timeout"),
    Leaky(
        "duplicate key value violates unique constraint",
        "",
        "duplicate key value violates unique constraint",
    ),
    Leaky("The conditional request failed", "", "The conditional request failed"),
    Leaky("Requested resource not found", "", "Requested resource not found"),
    Leaky("Unable to locate credentials", "", "Unable to locate credentials"),
    Leaky(
        "Remote end closed connection without response",
        "",
        "Remote end closed connection without response",
    ),
    Leaky("the primary key is missing", "", "the primary key is missing"),
    Leaky("No such file or directory: '/tmp/anna'", "anna|tmp", "No such file or directory"),
]

MORE = [
    Leaky("the password of user 17 is too long and contains: open market", "17|open|market"),
    Leaky("invalid credentials for admin / open", "admin|open", "invalid credentials for"),
    Leaky("login as admin with password open market failed", "open|market", "login as"),
    Leaky("could not connect: user=admin, pass=open market, host=db", "admin|open|market|db"),
    Leaky("Database=orders;User ID=admin;Password=open market", "orders|admin|open|market"),
    Leaky("My secret is that the market is open", "market|open"),
    Leaky(
        "The customer Grace Page from Reading has cancelled", "grace|page|reading", "has cancelled"
    ),
    Leaky("Payment by Frank Bank was declined", "frank|bank", "payment by|was declined"),
    Leaky("Mr. Price and Mrs. Long were not found", "price|long", "were not found"),
    Leaky(
        "Invoice for Long & Short Ltd. could not be created", "long|short", "could not be created"
    ),
    Leaky("account holder: Long, Will", "long|will"),
    Leaky("delivery address: Market Place 5, Reading", "market|place|reading", "delivery address"),
    Leaky("deliver to Market Place 5 in Reading", "market|place|reading", "deliver to"),
    Leaky("comment: please call before delivery", "call|before"),
    Leaky("note 'call first' left by Anna", "call|anna", "left by"),
    Leaky("message was: please deliver to the back door", "deliver|back|door", "message was"),
    Leaky("customer said: the market is closed", "market|closed"),
    Leaky("she wrote: open the market", "open|market"),
    Leaky("Row: open, market, long", "open|market|long"),
    Leaky("values (open, market)", "open|market"),
    Leaky("error collection: shop.orders dup key: { email: open }", "shop|email|open"),
    Leaky("Unexpected token open in JSON at position 4", "open|4", "unexpected token"),
    Leaky("credit card number is four one one one", "four|one"),
    Leaky("one-time code is four five six", "four|five|six"),
    Leaky("recovery phrase: market open long short table", "market|open|long|short|table"),
    Leaky("seed phrase market open long short table", "market|open|long|short|table"),
    Leaky("mnemonic market open long short table", "market|open|long|short|table"),
    Leaky("API key open market is not valid", "open|market", "api key"),
    Leaky("The token market was revoked", "market", "the token"),
    Leaky("Secret market was not found", "market", "secret"),
    Leaky("password was set to open market", "open|market", "password was"),
    Leaky("password has been changed to market", "market", "password has been changed"),
    Leaky("password changed from market to table", "market|table", "password changed"),
    Leaky("old password: market, new password: table", "market|table", "old password"),
    Leaky("username market password table", "market|table", "username"),
    Leaky("user market / password table", "market|table", "user"),
    Leaky("login: market password: table", "market|table", "login"),
    Leaky("market:table@host refused", "market|table|host", "refused"),
    Leaky("curl -u market:table failed", "market|table", "failed"),
    Leaky("--password market", "market"),
    Leaky("--password=market table", "market|table"),
    Leaky("-p market", "market"),
    Leaky("PGPASSWORD=market table", "market|table"),
    Leaky("export TOKEN=market", "market", "export token"),
    Leaky("key market not found", "market"),
    Leaky("customer anna-lena o'connor of new york has not paid", "anna|lena|connor|york"),
    Leaky("his wife Open Market called", "open|market", "his"),
    Leaky("next of kin: Mark Long", "mark|long", "next of"),
    Leaky("emergency contact Rose Field, phone five five five", "rose|field|five"),
    Leaky("driver license number A B C one two", " a| b| c|two", "license number"),
    Leaky("PO Box twelve, Reading", "twelve|reading"),
    Leaky("mail: anna schmidt at example com", "anna|schmidt|example", "mail"),
    Leaky("session id is open market", "open|market", "session id"),
    Leaky("DETAIL: Failing row contains 1, open, market", "1|open|market", "failing row contains"),
    Leaky(
        "CONTEXT: COPY orders, line 3: open market", "3|open|market", "context: copy orders, line"
    ),
    Leaky("wrong password open; wrong user market", "open|market", "wrong password"),
    Leaky("Password Is Open Sesame", "open|sesame", "password is"),
    Leaky("redis://:market@host refused", "market|host", "refused"),
    Leaky("DSN=open;UID=market;PWD=table", "open|market|table"),
    Leaky("{'password': 'open'}", "open"),
    Leaky("Authorization: Digest username=open, realm=market", "open|market", "authorization"),
]

TEXTS = [*PROSE, *SECRETS, *OTHER_LANGUAGES, *ROWS, *SHAPES, *USEFUL, *MORE]
