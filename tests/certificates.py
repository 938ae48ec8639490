"""Certificates for tests: an authority of the moment and what it signs, as PEM files for Kafka and librdkafka."""

from __future__ import annotations

import datetime
import ipaddress
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

LIFETIME = datetime.timedelta(days=2)


class Authority:
    """A certificate authority; `file` is what those who trust it are given."""

    def __init__(self, folder: Path, name: str) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _named(name)
        builder = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.file = folder / f"{name}-ca.pem"
        self.file.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))

    def issue(self, name: str, password: str = "", dns: str = "localhost", expired: bool = False) -> tuple[Path, Path]:
        """Certificate and key of `name`, for 127.0.0.1 and localhost or another name; a password encrypts the key."""
        key = ec.generate_private_key(ec.SECP256R1())
        address = [x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))] if dns == "localhost" else []
        names = x509.SubjectAlternativeName([x509.DNSName(dns), *address])
        builder = _builder(_named(name), self._name, key.public_key(), expired=expired)
        builder = builder.add_extension(names, critical=False)
        certificate, key_file = self._folder / f"{name}.pem", self._folder / f"{name}.key"
        certificate.write_bytes(_pem(builder.sign(self._key, hashes.SHA256())))
        encryption = (
            serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        )
        key_file.write_bytes(
            key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
        )
        return certificate, key_file


def _named(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, *, expired: bool = False
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - LIFETIME)
        .not_valid_after(now - LIFETIME / 2 if expired else now + LIFETIME)
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
