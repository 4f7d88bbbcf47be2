"""Words that announce a secret, a person or a value in the text of an error."""

from __future__ import annotations

import re
import unicodedata

from deadletter.failure.vocabulary import words

_SECRETIVE = words(
    """
    accesskey apikey authtoken authorization bearer cookie cookies credential credentials csrf cvc
    cvv jwt key keys maiden mnemonic nonce otp passcode passphrase passwd password passwords phrase
    pin psw pw pwd salt secret secrets sig signature ssn token tokens
    """
)
# In other languages: the value behind it may be English.
_FOREIGN = words(
    """
    clave contrasena geheimnis geheimwort haslo heslo jelszo kennwort kodeord lozinka losenord
    motdepasse palabrasecreta parola parole parool passord passwort salasana schluessel schlüssel
    segredo senha sifre wachtwoord zugangscode
    clé clave contraseña hasło jelszó lösenord şifre пароль ключ κωδικός סיסמה
    密码 密碼 口令 パスワード 비밀번호 암호
    """
)
_SECRETIVE_ENDS = ("apikey", "passphrase", "password", "passwort", "passwd", "secret", "token")

# They announce a secret only where a value follows: "pass: …", but "did not pass".
_SECRETIVE_LABELS = frozenset(
    {"auth", "basic", "login", "nickname", "pass", "passe", "pet", "session", "sessionid"}
)

# With one of these before it, a code is a secret.
_CODES = frozenset({"answer", "answers", "code", "codes", "question"})
_OF_SECRET_CODES = words(
    """
    access activation confirmation door gate login one-time pin recovery reset secret security sms
    time unlock verification
    """
)

NARROW = words(
    """
    a active again all already an and are as at authenticate available closed disabled enabled
    established inactive locked unavailable authenticate authenticated authentication authorization
    authorized be been by can cannot can't changed char column constraint constraints could
    couldn't denied did didn't do does doesn't due duplicate empty error errors exist exists
    expected expired expires fail failed failing fails field find for foreign format found
    from given had has hasn't have if in included incorrect index invalid is isn't it its json
    length locate malformed match may mismatch missing must name no none nor not null of on or
    parameter parse parsing policy present primary provide provided refresh refused rejected request
    required reset response retry revoked server service should specified supplied table temporarily
    that the their there this to too type unable unauthorized unexpected unexpectedly unique unknown
    unsupported update user used using validation value values verification verified verify violated
    violates violation was wasn't were while will with wrong your
    """
)
"""The words that may follow the name of a secret in one sentence: they make no passphrase."""

STATES = words(
    """
    and been denied does empty exist expired failed found has incorrect invalid is it malformed
    mismatch missing no none not null or provided rejected required revoked unknown was wrong
    """
)
"""What an error says of a secret behind a colon."""

NUMBERED = frozenset({"line", "record", "row"})
"""Behind the number of one of these and a colon is its content."""

NUMBERS = words(
    "zero one two three four five six seven eight nine ten eleven twelve twenty thirty forty fifty"
    " hundred thousand million"
)
"""Two of them in a row are a number in words."""

TOO = frozenset({"large", "long", "old", "short", "weak", "simple"})
"""They may follow "too"."""

VERBS = frozenset({"is", "was", "are", "were", "be"})
"""Between a name and its value."""

PERSONS = words(
    """
    account borrower client contact creditor customer customers debtor driver employee holder login
    member owner passenger patient payee payer person policyholder recipient sender subscriber
    tenant tenants user username users
    """
)
"""What follows one of these is a name, unless it says how things are."""

LABELS = PERSONS | words(
    """
    address body city comment company content contents country description diagnosis email
    example fax first firstname input label last lastname location mail message mobile name note
    notes param parameters params payload phone place postcode record region remark row said says
    street subject surname text title value values wrote zip
    """
)
"""What follows one of these and a colon is data."""

NAME_LIKE = words(
    """
    an bill christian dean don drew eve faith frank grace grant guy hope jack jan jean june long
    mark max may miles page pat price read reed rich rob rose sandy sue van victor ward will
    """
)
"""Words that are names of persons too, where they begin with a capital."""

FUNCTION = words(
    """
    a an and are as at be but by can did do does for from had has have if in into is it its no nor
    not of off on or out so than that the then there this to up was were when which while with
    """
)
"""Words of grammar: no letter makes them data."""

_LETTERS = re.compile(r"[^\W\d_]+")
_PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[^\W\d_]+")


def parts_of(text: str) -> list[str]:
    """The words in a joined name, in lower case: of "apiKey", "api" and "key"."""
    return [part.lower() for part in _PARTS.findall(text)]


def announces_secret(text: str, before: str, *, has_value: bool) -> bool:
    """True if the value behind this word is a secret.

    `before` is the word before it in lower case; `has_value` is True if a value is known to
    follow, as behind a colon.
    """
    plain = unicodedata.normalize("NFC", text)
    parts = parts_of(plain)
    whole = "".join(parts)
    if not _FOREIGN.isdisjoint((whole, *parts)):
        return True
    if not _SECRETIVE.isdisjoint(parts) or whole in _SECRETIVE or whole.endswith(_SECRETIVE_ENDS):
        return True
    if parts and parts[-1] == "id":
        return "session" in (before, *parts)
    if parts and parts[-1] in _CODES:
        return before in _OF_SECRET_CODES or not _OF_SECRET_CODES.isdisjoint(parts)
    return has_value and not _SECRETIVE_LABELS.isdisjoint(parts)


def is_secretive_word(word: str) -> bool:
    """True for a word that itself is no data, only the name of a secret, in lower case."""
    names = (_SECRETIVE, _SECRETIVE_LABELS, _FOREIGN)
    return word.isascii() and any(word in words for words in names)
