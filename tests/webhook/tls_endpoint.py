"""Endpoints on this machine, with every behaviour that one on the internet may have."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

Behaviour = Callable[[socket.socket, bytes], None]
"""What an endpoint does with a connection and the request that it read."""

# Seconds that a test may hang before it fails.
PATIENCE = 90.0


def certificate(folder: Path, name: str, *, valid: timedelta = timedelta(days=1)) -> Path:
    """A certificate for `name` that signs itself, with its key, in one PEM file."""
    now = datetime.now(UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
        .not_valid_after(now + valid)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = folder / f"{name}.pem"
    path.write_bytes(
        made.public_bytes(serialization.Encoding.PEM)
        + key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


def answers(text: str) -> Behaviour:
    """Answers every request with this."""

    def answer(connection: socket.socket, _request: bytes) -> None:
        connection.sendall(text.encode())

    return answer


class Endpoint:
    """Serves one behaviour on loopback, with TLS if it has a certificate; a context manager.

    It answers `most` requests on a connection before it closes it.
    """

    def __init__(self, behave: Behaviour, pem: Path | None = None, *, most: int = 1) -> None:
        self._behave = behave
        self._most = most
        self._tls: ssl.SSLContext | None = None
        if pem is not None:
            self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self._tls.load_cert_chain(pem)
            self._tls.sni_callback = self._asked_for
        self.requests: list[bytes] = []
        self.names: list[str | None] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._closed = False

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def dial(self, _address: str, _port: int, seconds: float) -> socket.socket:
        """Connects to this endpoint, for every address."""
        return socket.create_connection(("127.0.0.1", self.port), seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed = True
        with suppress(OSError):
            # Wakes the thread out of its accept.
            socket.create_connection(("127.0.0.1", self.port), PATIENCE).close()
        self._thread.join(PATIENCE)
        self._listener.close()
        assert not self._thread.is_alive()

    def _asked_for(self, _socket: ssl.SSLSocket, name: str | None, _: ssl.SSLContext) -> None:
        self.names.append(name)

    def _serve(self) -> None:
        while True:
            connection, _ = self._listener.accept()
            if self._closed:
                connection.close()
                return
            connection.settimeout(PATIENCE)
            # After any error of the other side, the next connection is served.
            with suppress(OSError), connection:
                if self._tls is None:
                    self._answer(connection)
                else:
                    with self._tls.wrap_socket(connection, server_side=True) as secured:
                        self._answer(secured)

    def _answer(self, connection: socket.socket) -> None:
        for number in range(self._most):
            request = _read(connection)
            if number and not request:
                return
            self.requests.append(request)
            self._behave(connection, request)


def _read(connection: socket.socket) -> bytes:
    """The head of a request and the body of its content-length."""
    request = b""
    while b"\r\n\r\n" not in request:
        if not (more := connection.recv(65_536)):
            return request
        request += more
    head, _, body = request.partition(b"\r\n\r\n")
    lengths = [
        int(line.partition(b":")[2])
        for line in head.lower().split(b"\r\n")
        if line.startswith(b"content-length:")
    ]
    missing = sum(lengths) - len(body)
    while missing > 0 and (more := connection.recv(65_536)):
        request += more
        missing -= len(more)
    return request
