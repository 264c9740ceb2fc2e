"""Keys and certificates of a test cluster: one CA, made anew for each start and thrown away with it.

Elliptic keys (P-256): the whole set takes milliseconds.
"""

from __future__ import annotations

import base64
import datetime as dt
import ipaddress
import json
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_VALIDITY = dt.timedelta(days=30)
_SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True)
class Identity:
    """A certificate with its private key, as PEM files."""

    certificate: Path
    key: Path


class Authority:
    """The CA of one cluster; everything it makes goes into `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(mode=0o700)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("disttrain-test-ca")
        builder = _builder(self._name, self._name, self._key.public_key()).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        self.certificate = directory / "ca.crt"
        self._certificate = builder.sign(self._key, hashes.SHA256())
        self.certificate.write_bytes(self._certificate.public_bytes(Encoding.PEM))

    def server(self, name: str, *more_addresses: str) -> Identity:
        """A serving certificate for loopback, more IP addresses, its own name and the API server's usual names."""
        addresses = [x509.IPAddress(ipaddress.ip_address(address)) for address in ("127.0.0.1", *more_addresses)]
        names = x509.SubjectAlternativeName([*addresses, *map(x509.DNSName, (name, *_SERVER_NAMES))])
        return self._issue(name, _name(name), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def client(self, user: str, group: str | None = None) -> Identity:
        """A client certificate: Kubernetes takes the user from CN and the groups from O."""
        return self._issue(user.replace(":", "-"), _name(user, group), ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def key_pair(self, name: str) -> Identity:
        """A bare key with its public half (as `certificate`), for service-account tokens."""
        key = ec.generate_private_key(ec.SECP256R1())
        public = self.directory / f"{name}.pub"
        public.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
        return Identity(public, self._write_key(name, key))

    def _issue(
        self, name: str, subject: x509.Name, usage: x509.ObjectIdentifier, names: x509.SubjectAlternativeName | None
    ) -> Identity:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _builder(subject, self._name, key.public_key()).add_extension(
            x509.ExtendedKeyUsage([usage]), critical=False
        )
        if names is not None:
            builder = builder.add_extension(names, critical=False)
        path = self.directory / f"{name}.crt"
        path.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(Encoding.PEM))
        return Identity(path, self._write_key(name, key))

    def _write_key(self, name: str, key: ec.EllipticCurvePrivateKey) -> Path:
        path = self.directory / f"{name}.key"
        data = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        path.touch(mode=0o600)
        path.write_bytes(data)
        return path


def kubeconfig(server: str, authority: Path, user: dict[str, str], namespace: str = "default") -> str:
    """A kubeconfig (JSON, which is YAML) that stands alone: certificates inside. `user` as in the kubeconfig format."""
    certificate = base64.b64encode(authority.read_bytes()).decode()
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "test", "cluster": {"server": server, "certificate-authority-data": certificate}}],
            "users": [{"name": "user", "user": user}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user", "namespace": namespace}}],
            "current-context": "test",
        },
        indent=1,
    )


def certificate_user(identity: Identity) -> dict[str, str]:
    """The `user` of a kubeconfig that authenticates by a client certificate."""
    return {
        "client-certificate-data": base64.b64encode(identity.certificate.read_bytes()).decode(),
        "client-key-data": base64.b64encode(identity.key.read_bytes()).decode(),
    }


def _name(common_name: str, organization: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organization is not None:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization))
    return x509.Name(attributes)


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + _VALIDITY)
    )
