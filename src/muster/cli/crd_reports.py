"""What `muster crds` prints: definitions as YAML or JSON, and what became of each when they were installed."""

# ruff: noqa: PLC0415  # printing must not wait for the client of a cluster

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer
import yaml

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
