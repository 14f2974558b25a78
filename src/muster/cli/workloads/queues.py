"""What `muster queue create`, `get`, `open`, `close` and `delete` do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import typer
from rich.text import Text

from muster.api import Queue, UserError
from muster.api.names import ROOT_QUEUE
from muster.api.objects.meta import DEFAULT_NAMESPACE
from muster.cli.screen import heading, make_console, print_document
from muster.cli.workloads.requests import Json, Server, amounts
from muster.controllers.queues import CLOSE_QUEUE

_PHASES: Final = ("pending", "inqueue", "running", "unknown", "completed")


def create_queue(server: Server, name: str, spec: Json, texts: Mapping[str, str]) -> None:
    """Make a queue; `texts` are amounts by the name of their field. Raises MusterError."""
    given = {field: amounts(text, f"--{field}") for field, text in texts.items() if text}
    head = {"apiVersion": Queue.api_version, "kind": Queue.kind, "metadata": {"name": name}}
    server.create(Queue, {**head, "spec": {**spec, **given}})
    typer.echo(f"Queue {name} is made")


def get_queue(server: Server, name: str, output: str) -> None:
    """Show a queue. Raises MusterError."""
    queue = server.get(Queue, name)
    if print_document(queue, output):
        return
    spec, status = queue.get("spec", {}), queue.get("status", {})
    jobs = ", ".join(f"{status[phase]} {phase}" for phase in _PHASES if status.get(phase))
    lines = {
        "state": status.get("state") or "Open",
        "parent": spec.get("parent", ""),
        "weight": str(spec.get("weight", 1)),
        "deserved": _text(spec.get("deserved")),
        "capability": _text(spec.get("capability")),
        "guarantee": _text((spec.get("guarantee") or {}).get("resource")),
        "holds": _text(status.get("allocated")),
        "jobs": jobs or "none",
    }
    console = make_console(wide=output == "wide")
    console.print(heading(f"Queue {name}"))
    for label, text in lines.items():
        if text:
            console.print(Text(f"  {label:<12}{text}"))


def _text(given: Mapping[str, object] | None) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in sorted((given or {}).items()))


def command_queue(server: Server, name: str, action: str, does: str) -> None:
    """Tell the controller of queues what to do. Raises MusterError, also for what it would not do."""
    if name == ROOT_QUEUE and action == CLOSE_QUEUE:
        raise UserError("cannot be closed; close the queues below it", subject=f"Queue {name}")
    server.tell(server.get(Queue, name), DEFAULT_NAMESPACE, action)
    typer.echo(f"Queue {name} {does}")


def delete_queue(server: Server, name: str) -> None:
    """Delete a queue. Raises MusterError."""
    server.delete(Queue, name)
    typer.echo(f"Queue {name} is deleted")
