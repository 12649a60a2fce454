"""References of a registry, as in REF of `gristmill push REF` and `gristmill pull REF`:

    HOST[:PORT]/NAME[:TAG][@sha256:DIGEST]

The host is always said: what is pushed must not end at a registry that nobody named. Names and tags
are those of the OCI distribution specification. A digest, where given, decides; a tag may move.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

from .errors import ReferenceInvalid

_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
_FORM = re.compile(
    r"(?P<host>\[[0-9a-fA-F:]+\](?::[0-9]{1,5})?|[A-Za-z0-9](?:[A-Za-z0-9.-]*)(?::[0-9]{1,5})?)"
    rf"/(?P<name>{_PART}(?:/{_PART})*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
    r"(?:@(?P<digest>sha256:[0-9a-f]{64}))?"
)
_FORM_WORDS = "HOST[:PORT]/NAME[:TAG][@sha256:DIGEST], such as registry.example.com/kernels:v1"
_LONGEST = 500  # characters
_LOGIN = re.compile(r"^(?:[a-z]+://)?.*:.*@(?!sha)")  # no place for one, and not to be shown


@dataclass(frozen=True)
class Reference:
    """A name at a registry. tag and digest: empty where not given."""

    host: str
    name: str
    tag: str = ""
    digest: str = ""

    @staticmethod
    def parse(text: str) -> Reference:
        """Read a reference; ReferenceInvalid shows the form."""
        match = _FORM.fullmatch(text) if len(text) <= _LONGEST else None
        if match is None:
            got = repr(_LOGIN.sub("", text))
            raise ReferenceInvalid("not a reference", expected=_FORM_WORDS, got=got)
        host = match["host"]
        if not re.search(r"[.:]", host) and host != "localhost":
            raise ReferenceInvalid(
                "a reference without a host", expected=_FORM_WORDS, got=repr(text)
            )
        return Reference(host, match["name"], match["tag"] or "", match["digest"] or "")

    def __str__(self) -> str:
        tag = f":{self.tag}" if self.tag else ""
        return f"{self.host}/{self.name}{tag}" + (f"@{self.digest}" if self.digest else "")

    @property
    def wanted(self) -> str:
        """What is asked for: the digest, else the tag, else `latest`."""
        return self.digest or self.tag or "latest"

    def at(self, digest: str) -> Reference:
        """The same name by the digest of what was found or made."""
        return Reference(self.host, self.name, self.tag, digest)

    @property
    def loopback(self) -> bool:
        """Whether the registry is on this machine, so that it is spoken to without TLS."""
        host = self.host
        host = host[1 : host.index("]")] if host.startswith("[") else host.partition(":")[0]
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"
