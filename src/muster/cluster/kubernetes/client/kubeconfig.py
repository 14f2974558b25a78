"""Kubeconfigs: what one says of server and user, and one sentence for each thing that can be wrong with one.

The parts that count are found as kubectl finds them: the context, its cluster, its user. Several files count as one,
the first that says something wins; a relative path is one beside the file that names it. What only the server can
judge, such as a token that has run out, is left to it. Users with certificates or a token are read here; those who get
credentials from a program or a provider are looked at here, and left to a library.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import SplitResult, urlsplit

from muster.api import UserError
from muster.api.documents import read_yaml
from muster.api.errors import describe_value
from muster.api.fields import did_you_mean

Json = Mapping[str, Any]  # Any: a document
_HINT: Final = "name another with --kubeconfig or $KUBECONFIG"
#: Fields with text in base64, and the file that may stand in their place.
_DATA: Final = {
    "certificate-authority-data": "certificate-authority",
    "client-certificate-data": "client-certificate",
    "client-key-data": "client-key",
}


#: What certificates and private keys begin with.
_PEM: Final = ("CERTIFICATE-----", "PRIVATE KEY-----")
#: Ways to say who one is that take more than reading.
_ELSEWHERE: Final = ("exec", "auth-provider", "username")
#: Contexts that kubeadm and k3s make in every cluster.
_ANYBODYS: Final = ("kubernetes-admin@kubernetes", "default")


@dataclass(frozen=True, slots=True)
class Access:
    """Where a server is, how it is known, and who we are to it."""

    server: str
    #: Certificates in PEM: those that the server's is signed with ("": those that the machine trusts), and our own.
    trusted: str = ""
    certificate: str = ""
    key: str = ""
    is_verified: bool = True
    #: The name in the server's certificate, where it is not that of the address.
    tls_name: str | None = None
    proxy: str | None = None
    token: str = ""
    #: Where the token stands; it is read anew from time to time, as somebody may put a new one there.
    token_file: Path | None = None

    def authorization(self) -> str | None:
        """The Authorization header as it is now; None when a certificate says who we are. Raises OSError."""
        token = self.token if self.token_file is None else self.token_file.read_text(encoding="utf-8").strip()
        return f"Bearer {token}" if token else None


def read_kubeconfig(path: str, context: str | None) -> Access | None:
    """What the kubeconfigs of a path, as $KUBECONFIG lists them, say; None where credentials come from elsewhere.

    Raises UserError for the first thing that is wrong with them.
    """
    return _access(_config(path), context)


def name_of_cluster(path: str, context: str | None) -> str:
    """What people call the cluster of a context: the context, unless installers call every cluster so.

    Raises UserError as `read_kubeconfig` does.
    """
    config = _config(path)
    name = context if context is not None else config.current_context()
    field = "--context" if context is not None else "current-context"
    cluster = config.part("contexts", name, field).says.get("cluster")
    server = config.part("clusters", cluster, f"contexts {name}: cluster").says.get("server")
    if name in _ANYBODYS:
        return urlsplit(str(server)).netloc or name
    # Amazon's tools write partition, region and account before it.
    return name.rpartition("/")[2] or name if name.startswith("arn:") else name


def _config(path: str) -> _Config:
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    there = [file for file in files if file.exists()]
    if not there:
        raise UserError(f"no such kubeconfig; {_HINT}", place=path)
    return _Config([(_read(file), file.parent) for file in there], path)


def _read(file: Path) -> Json:
    if file.is_dir():
        raise UserError(f"expected a kubeconfig, got a directory; {_HINT}", place=str(file))
    try:
        text = file.read_text(encoding="utf-8-sig")
    except OSError as fault:
        raise UserError(f"the kubeconfig cannot be read: {fault.strerror}", place=str(file)) from None
    except UnicodeDecodeError:
        raise UserError("expected text in UTF-8", place=str(file)) from None
    documents = [known.content for known in read_yaml(text, str(file)) if known.content is not None]
    if not documents:
        raise UserError(f"the kubeconfig is empty; {_HINT}", place=str(file))
    if len(documents) > 1:
        text = f"expected one document, got {len(documents)}; several files may stand in $KUBECONFIG"
        raise UserError(text, place=str(file))
    if not isinstance(documents[0], dict):
        text = f"expected a mapping with clusters, contexts and users, got {describe_value(documents[0])}"
        raise UserError(text, place=str(file))
    return documents[0]


class _Part(NamedTuple):
    """A cluster, a user or a context, and the folder of the file that it stands in."""

    says: Json
    folder: Path


class _Config:
    """Several kubeconfigs as one."""

    def __init__(self, configs: Sequence[tuple[Json, Path]], place: str) -> None:
        self._configs = configs
        self.place = place

    def fault(self, text: str, field: str) -> UserError:
        return UserError(text, place=self.place, field=field)

    def current_context(self) -> str:
        for config, _ in self._configs:
            if name := config.get("current-context"):
                if not isinstance(name, str):
                    raise self.fault(f"expected a name, got {describe_value(name)}", "current-context")
                return name
        names = list(self._entries("contexts"))
        text = f"expected the name of a context ({', '.join(names)})" if names else "expected the name of a context"
        raise self.fault(f"{text}, got nothing; or give --context", "current-context")

    def _entries(self, section: str) -> dict[str, _Part]:
        found: dict[str, _Part] = {}
        for config, folder in self._configs:
            items = config.get(section) or []
            if not isinstance(items, list):
                raise self.fault(f"expected a list, got {describe_value(items)}", section)
            for index, item in enumerate(items):
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise self.fault(
                        f"expected a mapping with a name, got {describe_value(item)}", f"{section}[{index}]"
                    )
                found.setdefault(item["name"], _Part(item, folder))
        return found

    def part(self, section: str, name: object, field: str) -> _Part:
        """What stands under a name; `field` is where the name was found."""
        kind = section.removesuffix("s")
        entries = self._entries(section)
        if not isinstance(name, str) or not name:
            raise self.fault(f"expected the name of a {kind}, got {describe_value(name)}", field)
        if name not in entries:
            known = f"; there are {', '.join(entries)}" if entries else f"; there are no {section} in it"
            raise self.fault(f'there is no {kind} "{name}"{did_you_mean(name, entries) or known}', field)
        whole, folder = entries[name]
        inside = whole.get(kind)
        if not isinstance(inside, dict):
            raise self.fault(f"expected a mapping, got {describe_value(inside)}", f"{section} {name}: {kind}")
        return _Part(inside, folder)


def _access(config: _Config, wanted: str | None) -> Access | None:
    name = wanted if wanted is not None else config.current_context()
    context, _ = config.part("contexts", name, "--context" if wanted is not None else "current-context")
    cluster_name, user_name = context.get("cluster"), context.get("user")
    cluster = config.part("clusters", cluster_name, f"contexts {name}: cluster")
    trusted = _check_cluster(config, cluster, f"clusters {cluster_name}")
    user, known = _Part({}, Path()), dict[str, str]()
    if user_name:  # some servers want none
        user = config.part("users", user_name, f"contexts {name}: user")
        known = _check_user(config, user, f"users {user_name}")
    if any(user.says.get(way) for way in _ELSEWHERE):
        return None
    token_file = user.says.get("tokenFile")
    return Access(
        cluster.says["server"].rstrip("/"),
        trusted,
        known.get("client-certificate", ""),
        known.get("client-key", ""),
        is_verified=not cluster.says.get("insecure-skip-tls-verify"),
        tls_name=cluster.says.get("tls-server-name") or None,
        proxy=cluster.says.get("proxy-url") or None,
        token=user.says.get("token") or "",
        token_file=user.folder / token_file if isinstance(token_file, str) and token_file else None,
    )


def _check_cluster(config: _Config, cluster: _Part, field: str) -> str:
    """Return the certificates that the server's is to be signed with."""
    server = cluster.says.get("server")
    address = urlsplit(server) if isinstance(server, str) else None
    if address is None or address.scheme not in ("https", "http") or not address.netloc or not _has_port(address):
        shown = describe_value(server)
        raise config.fault(f'expected an address such as "https://10.0.0.1:6443", got {shown}', f"{field}: server")
    skips = cluster.says.get("insecure-skip-tls-verify")
    if skips is not None and not isinstance(skips, bool):
        text = f"expected true or false, got {describe_value(skips)}"
        raise config.fault(text, f"{field}: insecure-skip-tls-verify")
    trusted = ""
    for written, _, text in _pems(config, cluster, field):
        try:
            ssl.create_default_context(cadata=text)
        except (ssl.SSLError, ValueError):
            raise config.fault("expected a certificate in PEM, got something else", f"{field}: {written}") from None
        trusted = text
    return trusted


def _has_port(address: SplitResult) -> bool:
    """Whether the port is one, if there is any."""
    try:
        return address.port != 0
    except ValueError:
        return False


def _check_user(config: _Config, user: _Part, field: str) -> dict[str, str]:
    """Return certificate and key, by their names."""
    says, folder = user
    found = list(_pems(config, user, field))
    if len(found) == 1:
        raise config.fault("expected a client certificate with its key, got one of the two", field)
    for written, name, text in found:
        what = "a private key" if "key" in name else "a certificate"
        if _PEM["key" in name] not in text:
            raise config.fault(f"expected {what} in PEM, got something else", f"{field}: {written}")
    token = says.get("token")
    if token is not None and not isinstance(token, str):
        raise config.fault(f"expected a string, got {describe_value(token)}", f"{field}: token")
    token_file = says.get("tokenFile")
    if isinstance(token_file, str):
        try:
            empty = not (folder / token_file).read_bytes().strip()
        except OSError as fault:
            raise config.fault(f'"{token_file}" cannot be read: {fault.strerror}', f"{field}: tokenFile") from None
        if empty:
            raise config.fault(f'expected a token in "{token_file}", got nothing', f"{field}: tokenFile")
    _check_plugin(config, says.get("exec"), f"{field}: exec", folder)
    return {name: text for _, name, text in found}


def _check_plugin(config: _Config, plugin: object, field: str, folder: Path) -> None:
    if plugin is None:
        return
    if not isinstance(plugin, dict) or not isinstance(plugin.get("command"), str):
        raise config.fault(f"expected a mapping with a command, got {describe_value(plugin)}", field)
    for name in ("args", "env"):
        if not isinstance(plugin.get(name) or [], list):
            raise config.fault(f"expected a list, got {describe_value(plugin[name])}", f"{field}.{name}")
    command = plugin["command"]
    found = shutil.which(str(folder / command) if "/" in command and not command.startswith("/") else command)
    if found is None:
        hint = plugin.get("installHint")
        said = (
            f"; its kubeconfig says: {hint.strip().splitlines()[0]}" if isinstance(hint, str) and hint.strip() else ""
        )
        raise config.fault(f'there is no program "{command}", which gets the credentials{said}', f"{field}.command")


def _pems(config: _Config, part: _Part, field: str) -> Iterator[tuple[str, str, str]]:
    """The certificates and keys of a part: the field that each is written in, what it is, and its text."""
    for data, file in _DATA.items():
        if text := part.says.get(data):
            try:
                yield data, file, base64.b64decode(text, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError, ValueError, TypeError):
                raise config.fault("expected text in base64, got something else", f"{field}: {data}") from None
        elif name := part.says.get(file):
            try:
                yield file, file, (part.folder / str(name)).read_text()
            except (OSError, UnicodeDecodeError) as fault:
                reason = fault.strerror if isinstance(fault, OSError) else "not text"
                raise config.fault(f'"{name}" cannot be read: {reason}', f"{field}: {file}") from None
