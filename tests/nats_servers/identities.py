"""Certificates and users of NATS for tests: an authority, a server's certificate, a creds file."""

import base64
import binascii
import datetime
import ipaddress
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.x509.oid import NameOID

_OPERATOR, _ACCOUNT, _USER, _SEED = 14 << 3, 0, 20 << 3, 18 << 3
_BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2100, 1, 1, tzinfo=datetime.UTC)


def write_certificates(folder: Path) -> None:
    """Write `ca.pem`, and `server.pem` with `server.key` for 127.0.0.1, into a folder."""
    authority, name = ec.generate_private_key(ec.SECP256R1()), _common_name("test authority")
    basic = x509.BasicConstraints(ca=True, path_length=None)
    signed = _certificate(name, name, authority).add_extension(basic, critical=True)
    _write(folder / "ca.pem", signed.sign(authority, hashes.SHA256()))
    key = ec.generate_private_key(ec.SECP256R1())
    where = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    server = _certificate(_common_name("server"), name, key).add_extension(where, critical=False)
    _write(folder / "server.pem", server.sign(authority, hashes.SHA256()))
    (folder / "server.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_BEGIN)
        .not_valid_after(_END)
    )


def _write(path: Path, certificate: x509.Certificate) -> None:
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))


def write_credentials(path: Path) -> str:
    """Write the credentials of a new user; returns the configuration of a server that knows it."""
    operator, account, user = (Ed25519PrivateKey.generate() for _ in range(3))
    operator_id, account_id = _public(operator, _OPERATOR), _public(account, _ACCOUNT)
    operator_jwt = _jwt(operator, operator_id, operator_id, "operator", {})
    unlimited = dict.fromkeys(("subs", "data", "payload", "imports", "exports", "conn", "leaf"), -1)
    account_jwt = _jwt(
        operator, operator_id, account_id, "account",
        {"limits": {**unlimited, "wildcards": True}},
    )  # fmt: skip
    user_jwt = _jwt(account, account_id, _public(user, _USER), "user", {"subs": -1, "data": -1})
    seed = bytes([_SEED | (_USER >> 5), (_USER & 31) << 3]) + user.private_bytes_raw()
    path.write_text(
        f"-----BEGIN NATS USER JWT-----\n{user_jwt}\n------END NATS USER JWT------\n\n"
        f"-----BEGIN USER NKEY SEED-----\n{_encode(seed)}\n------END USER NKEY SEED------\n",
        encoding="utf-8",
    )
    return (
        f"operator: {operator_jwt}\nresolver: MEMORY\n"
        f"resolver_preload: {{ {account_id}: {account_jwt} }}\n"
    )


def _public(key: Ed25519PrivateKey, prefix: int) -> str:
    return _encode(bytes([prefix]) + key.public_key().public_bytes_raw())


def _encode(raw: bytes) -> str:
    checked = raw + binascii.crc_hqx(raw, 0).to_bytes(2, "little")
    return base64.b32encode(checked).decode().rstrip("=")


def _jwt(key: Ed25519PrivateKey, issuer: str, subject: str, kind: str, claims: object) -> str:
    head = {"typ": "JWT", "alg": "ed25519-nkey"}
    assert isinstance(claims, dict)
    body = {
        "jti": subject, "iat": 1_700_000_000, "iss": issuer, "name": kind, "sub": subject,
        "nats": {**claims, "type": kind, "version": 2},
    }  # fmt: skip
    text = ".".join(_url64(json.dumps(it).encode()) for it in (head, body))
    return f"{text}.{_url64(key.sign(text.encode()))}"


def _url64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")
