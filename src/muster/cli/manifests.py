"""Objects that an installation needs, as YAML or JSON: definitions of kinds, and configurations of webhooks.

Also what became of each definition when they were installed.
"""

# ruff: noqa: PLC0415  # printing must not wait for the client of a cluster

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
import yaml

from muster.admission.hooks import Address, configurations
from muster.api import UserError
from muster.api.crd_rules import Schema
from muster.api.definitions import definitions

if TYPE_CHECKING:
    from muster.cluster.kubernetes.client.commands import Installed

_WORDS: Final = {
    "created": "installed",
    "updated": "updated",
    "unchanged": "unchanged",
    "kept": "exists, left alone",
}


def print_definitions(kinds: Sequence[str], output: str) -> None:
    """Print definitions so that `kubectl create -f -` takes them."""
    documents = definitions(kinds)
    if output == "json":
        whole = documents[0] if len(documents) == 1 else {"apiVersion": "v1", "kind": "List", "items": documents}
        typer.echo(json.dumps(whole, indent=2))
    else:
        typer.echo("---\n".join(map(as_yaml, documents)), nl=False)


def as_yaml(document: Schema) -> str:
    """Return one definition as YAML."""
    # By way of JSON, because YAML would write parts that occur twice as references to each other.
    text: str = yaml.safe_dump(json.loads(json.dumps(document)), sort_keys=False, width=120)
    return text


def print_installed(kubeconfig: Path | None, context: str | None, *, dry_run: bool) -> bool:
    """Install all definitions, say what became of each; False when one cannot be used."""
    from muster.cluster.kubernetes.client.commands import install

    done = install(definitions(), kubeconfig, context, dry_run=dry_run)
    for each in done:
        typer.echo(f"{each.name} {_told(each, dry_run=dry_run)}")
    return all(not each.lacks for each in done)


def _told(each: Installed, *, dry_run: bool) -> str:
    words = _WORDS[each.outcome]
    if dry_run and each.outcome in {"created", "updated"}:
        words = f"would be {words}"
    return f"{words}; it does not serve {each.lacks}, which Muster needs" if each.lacks else words


# -- webhooks ---------------------------------------------------------------------------------------------------


def print_configurations(
    service: str, url: str, ca_file: Path | None, failure_policy: str, scheduler_names: tuple[str, ...], output: str
) -> None:
    """Print both configurations. Raises UserError."""
    namespace, slash, name = service.partition("/")
    if not url and not (slash and namespace and name):
        raise UserError(f'--service: expected NAMESPACE/NAME such as "muster-system/muster-webhooks", got "{service}"')
    if url and not url.startswith("https://"):
        raise UserError(f'--url: expected an address that begins with https://, got "{url}"')
    address = Address(url, namespace, name, "" if ca_file is None else _bundle(ca_file))
    documents = configurations(address, failure_policy=failure_policy, scheduler_names=scheduler_names)
    if output == "json":
        typer.echo(json.dumps({"apiVersion": "v1", "kind": "List", "items": documents}, indent=2))
    else:
        typer.echo("---\n".join(map(as_yaml, documents)), nl=False)


def _bundle(file: Path) -> str:
    try:
        content = file.read_bytes()
    except OSError as fault:
        raise UserError(f"cannot read the file: {fault.strerror}", place=str(file)) from None
    if b"-----BEGIN CERTIFICATE-----" not in content:
        raise UserError("expected certificates in PEM", place=str(file))
    return base64.b64encode(content).decode()
