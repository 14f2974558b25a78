"""Kubeconfigs, looked at before they are used: one sentence for each thing that can be wrong with one.

The client library takes many of them as they are and fails later, in words about its own insides. Here the parts that
it will use are found as it finds them: the context, its cluster, its user. Several files count as one, the first that
says something wins. What only the server can judge, such as a token that has run out, is left to it.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import ssl
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

from muster.api import UserError
from muster.api.documents import read_yaml
from muster.api.errors import describe_value
from muster.api.fields import did_you_mean

Entry = Mapping[str, Any]
_HINT: Final = "name another with --kubeconfig or $KUBECONFIG"
#: Fields with text in base64, and the file that may stand in their place.
_DATA: Final = {
    "certificate-authority-data": "certificate-authority",
    "client-certificate-data": "client-certificate",
    "client-key-data": "client-key",
}


#: What certificates and private keys begin with.
_PEM: Final = ("CERTIFICATE-----", "PRIVATE KEY-----")


def check_kubeconfig(path: str, context: str | None) -> None:
    """Raise UserError for the first thing that is wrong with the kubeconfigs of a path, as $KUBECONFIG lists them."""
    files = [Path(part).expanduser() for part in path.split(os.pathsep) if part]
    there = [file for file in files if file.exists()]
    if not there:
        raise UserError(f"no such kubeconfig; {_HINT}", place=path)
    configs = [_read(file) for file in there]
    _check_context(_Config(configs, path), context, there[0].parent)


def _read(file: Path) -> Entry:
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


class _Config:
    """Several kubeconfigs as one."""

    def __init__(self, configs: Sequence[Entry], place: str) -> None:
        self._configs = configs
        self.place = place

    def fault(self, text: str, field: str) -> UserError:
        return UserError(text, place=self.place, field=field)

    def current_context(self) -> str:
        for config in self._configs:
            if name := config.get("current-context"):
                if not isinstance(name, str):
                    raise self.fault(f"expected a name, got {describe_value(name)}", "current-context")
                return name
        names = list(self._entries("contexts"))
        text = f"expected the name of a context ({', '.join(names)})" if names else "expected the name of a context"
        raise self.fault(f"{text}, got nothing; or give --context", "current-context")

    def _entries(self, section: str) -> dict[str, Entry]:
        found: dict[str, Entry] = {}
        for config in self._configs:
            items = config.get(section) or []
            if not isinstance(items, list):
                raise self.fault(f"expected a list, got {describe_value(items)}", section)
            for index, item in enumerate(items):
                if not isinstance(item, dict) or not isinstance(item.get("name"), str):
                    raise self.fault(
                        f"expected a mapping with a name, got {describe_value(item)}", f"{section}[{index}]"
                    )
                found.setdefault(item["name"], item)
        return found

    def part(self, section: str, name: object, field: str) -> Entry:
        """What stands under a name; `field` is where the name was found."""
        kind = section.removesuffix("s")
        entries = self._entries(section)
        if not isinstance(name, str) or not name:
            raise self.fault(f"expected the name of a {kind}, got {describe_value(name)}", field)
        if name not in entries:
            known = f"; there are {', '.join(entries)}" if entries else f"; there are no {section} in it"
            raise self.fault(f'there is no {kind} "{name}"{did_you_mean(name, entries) or known}', field)
        inside = entries[name].get(kind)
        if not isinstance(inside, dict):
            raise self.fault(f"expected a mapping, got {describe_value(inside)}", f"{section} {name}: {kind}")
        return inside


def _check_context(config: _Config, wanted: str | None, folder: Path) -> None:
    name = wanted if wanted is not None else config.current_context()
    context = config.part("contexts", name, "--context" if wanted is not None else "current-context")
    cluster_name, user_name = context.get("cluster"), context.get("user")
    cluster = config.part("clusters", cluster_name, f"contexts {name}: cluster")
    _check_cluster(config, cluster, f"clusters {cluster_name}", folder)
    if user_name:  # some servers want none
        user = config.part("users", user_name, f"contexts {name}: user")
        _check_user(config, user, f"users {user_name}", folder)


def _check_cluster(config: _Config, cluster: Entry, field: str, folder: Path) -> None:
    server = cluster.get("server")
    address = urlsplit(server) if isinstance(server, str) else None
    if address is None or address.scheme not in ("https", "http") or not address.netloc or not _has_port(address):
        shown = describe_value(server)
        raise config.fault(f'expected an address such as "https://10.0.0.1:6443", got {shown}', f"{field}: server")
    skips = cluster.get("insecure-skip-tls-verify")
    if skips is not None and not isinstance(skips, bool):
        text = f"expected true or false, got {describe_value(skips)}"
        raise config.fault(text, f"{field}: insecure-skip-tls-verify")
    for name, text in _pems(config, cluster, field, folder):
        try:
            ssl.create_default_context(cadata=text)
        except (ssl.SSLError, ValueError):
            raise config.fault("expected a certificate in PEM, got something else", f"{field}: {name}") from None


def _has_port(address: SplitResult) -> bool:
    """Whether the port is one, if there is any."""
    try:
        return address.port != 0
    except ValueError:
        return False


def _check_user(config: _Config, user: Entry, field: str, folder: Path) -> None:
    found = dict(_pems(config, user, field, folder))
    if bool(user.get("client-certificate-data") or user.get("client-certificate")) != bool(
        user.get("client-key-data") or user.get("client-key")
    ):
        raise config.fault("expected a client certificate with its key, got one of the two", field)
    for name, text in found.items():
        what = "a private key" if "key" in name else "a certificate"
        if _PEM["key" in name] not in text:
            raise config.fault(f"expected {what} in PEM, got something else", f"{field}: {name}")
    token = user.get("token")
    if token is not None and not isinstance(token, str):
        raise config.fault(f"expected a string, got {describe_value(token)}", f"{field}: token")
    token_file = user.get("tokenFile")
    if isinstance(token_file, str):
        try:
            empty = not (folder / token_file).read_bytes().strip()
        except OSError as fault:
            raise config.fault(f'"{token_file}" cannot be read: {fault.strerror}', f"{field}: tokenFile") from None
        if empty:
            raise config.fault(f'expected a token in "{token_file}", got nothing', f"{field}: tokenFile")
    _check_plugin(config, user.get("exec"), f"{field}: exec", folder)


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


def _pems(config: _Config, entry: Entry, field: str, folder: Path) -> Iterator[tuple[str, str]]:
    """The certificates and keys of an entry, decoded, by the name of the field that they stand in."""
    for data, file in _DATA.items():
        if text := entry.get(data):
            try:
                yield data, base64.b64decode(text, validate=True).decode()
            except (binascii.Error, UnicodeDecodeError, ValueError, TypeError):
                raise config.fault("expected text in base64, got something else", f"{field}: {data}") from None
        elif name := entry.get(file):
            try:
                yield file, (folder / str(name)).read_text()
            except (OSError, UnicodeDecodeError) as fault:
                reason = fault.strerror if isinstance(fault, OSError) else "not text"
                raise config.fault(f'"{name}" cannot be read: {reason}', f"{field}: {file}") from None
