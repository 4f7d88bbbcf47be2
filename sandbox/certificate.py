"""A certificate that lets a server on this machine answer as localhost over TLS.

It signs itself, so whoever is given its PEM file trusts this server and nobody else.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

# A sandbox left up over a long weekend still answers.
LIFETIME = timedelta(days=7)

# The clock of a virtual machine may lag behind its host's.
CLOCK_SKEW = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """Two PEM files: *trust* for the clients, *key* for the server alone."""

    trust: Path
    key: Path


def issue(folder: Path, *, now: datetime) -> Certificate:
    """Write a new certificate for localhost and 127.0.0.1 into *folder*."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "deadletter sandbox")])
    names = x509.SubjectAlternativeName(
        [x509.DNSName("localhost"), x509.IPAddress(IPv4Address("127.0.0.1"))]
    )
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SKEW)
        .not_valid_after(now + LIFETIME)
        .add_extension(names, critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .sign(key, hashes.SHA256())
    )
    written = Certificate(trust=folder / "localhost.pem", key=folder / "localhost.key")
    written.trust.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    written.key.touch(mode=0o600)
    written.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return written
