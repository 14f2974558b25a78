"""What `muster job run`, `view`, `suspend`, `resume` and `delete` do."""

from __future__ import annotations

import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.text import Text

from muster.api import PodGroup, UserError, load_text
from muster.api.documents import read_yaml
from muster.api.names import JOB_NAME
from muster.api.objects.batch import Job
from muster.api.objects.meta import DEFAULT_NAMESPACE
from muster.cli.screen import heading, make_console, plain_table, print_document
from muster.cli.workloads.requests import Json, Server, amounts
from muster.controllers.jobs.observed import FINISHED

_COUNTS: Final = ("pending", "running", "succeeded", "failed", "terminating", "unknown")
_EVENTS: Final = 10


@dataclass(frozen=True, slots=True)
class NewJob:
    """A Job of one task, as options describe it."""

    name: str
    namespace: str
    image: str
    replicas: int
    minimum: int
    requests: str
    limits: str
    queue: str
    scheduler: str

    def document(self) -> Json:
        """Raises UserError."""
        if not self.name:
            raise UserError("expected --name, or a Job in a file with --filename")
        if self.minimum > self.replicas:
            raise UserError(f"--min: expected at most the number of replicas, {self.replicas}, got {self.minimum}")
        requests = amounts(self.requests, "--requests")
        resources = {"requests": requests, "limits": amounts(self.limits, "--limits") or requests}
        container = {"name": self.name, "image": self.image, "resources": resources}
        task = {
            "name": self.name,
            "replicas": self.replicas,
            "template": {
                "metadata": {"labels": {"app": self.name}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        }
        return {
            "apiVersion": Job.api_version,
            "kind": Job.kind,
            "metadata": {"name": self.name, "namespace": self.namespace},
            "spec": {
                "minAvailable": self.minimum or self.replicas,
                "queue": self.queue,
                "schedulerName": self.scheduler,
                "tasks": [task],
            },
        }


def run_job(server: Server, file: str, wanted: NewJob) -> None:
    """Make a Job. Raises MusterError."""
    for document in _documents(file) if file else [wanted.document()]:
        made = server.create(Job, document)
        typer.echo(f"Job {made['metadata']['namespace']}/{made['metadata']['name']} is made")


def _documents(file: str) -> list[Json]:
    """The Jobs of a file as they were written, after a look at whether they can be read. Raises UserError."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"cannot read the file: {error.strerror}", place=file) from None
    except UnicodeDecodeError:
        raise UserError("expected text in UTF-8", place=file) from None
    for loaded in load_text(text, file):
        if not isinstance(loaded.object, Job):
            raise UserError("expected Jobs of batch.volcano.sh/v1alpha1 alone; use kubectl for the rest", place=file)
    found = [document.content for document in read_yaml(text, file) if isinstance(document.content, dict)]
    for document in found:
        document["metadata"].setdefault("namespace", DEFAULT_NAMESPACE)
    return found


def command_job(server: Server, key: str, action: str, done: str) -> None:
    """Tell the controller of a Job what to do. Raises MusterError, also for one that has ended."""
    job = server.get(Job, key)
    if (phase := _state(job).get("phase")) in FINISHED:
        raise UserError(f"is {phase}; it cannot be {done} any more", subject=f"Job {key}")
    server.tell(job, key.partition("/")[0], action)
    typer.echo(f"Job {key} is being {done}")


def delete_job(server: Server, key: str) -> None:
    """Delete a Job. Raises MusterError."""
    server.delete(Job, key)
    typer.echo(f"Job {key} is deleted")


# -- view ------------------------------------------------------------------------------------------------------


def view_job(server: Server, key: str, output: str) -> None:
    """Show a Job, what was made of it, and what it waits for. Raises MusterError."""
    job = server.get(Job, key)
    namespace, _, name = key.partition("/")
    pods = server.list(f"/api/v1/namespaces/{namespace}/pods?labelSelector={JOB_NAME}%3D{name}")
    events = server.list(f"/api/v1/namespaces/{namespace}/events?fieldSelector=involvedObject.name%3D{name}")
    events = [each for each in events if each["involvedObject"].get("uid") == job["metadata"]["uid"]]
    waits = _why_it_waits(server, job)
    if print_document({"job": job, "pods": pods, "events": events, "waits": waits}, output):
        return
    console = make_console(wide=output == "wide")
    _print_head(console, job, waits)
    _print_pods(console, pods)
    _print_events(console, events)


def _why_it_waits(server: Server, job: Json) -> str:
    """What the scheduler last said of the PodGroup of a Job that does not run."""
    if _state(job).get("phase", "Pending") not in ("Pending", "Restarting"):
        return ""
    metadata = job["metadata"]
    try:
        group = server.get(PodGroup, f"{metadata['namespace']}/{metadata['name']}-{metadata['uid']}")
    except UserError:
        return "no controller has made its PodGroup yet; does `muster run` serve this cluster?"
    conditions = group.get("status", {}).get("conditions") or []
    return next((each.get("message", "") for each in conditions if each.get("type") == "Unschedulable"), "")


def _print_head(console: Console, job: Json, waits: str) -> None:
    spec, status, state = job["spec"], job.get("status", {}), _state(job)
    counts = ", ".join(f"{status[name]} {name}" for name in _COUNTS if status.get(name))
    console.print(heading(f"Job {job['metadata']['namespace']}/{job['metadata']['name']}"))
    lines = {
        "phase": " ".join(filter(None, (state.get("phase", "Pending"), _since(state.get("lastTransitionTime"))))),
        "because": state.get("message", ""),
        "waits": waits,
        "queue": spec.get("queue", "default"),
        "minimum": f"{spec.get('minAvailable', 0)} of {sum(task.get('replicas', 0) for task in spec['tasks'])} pods",
        "pods": counts or "none",
        "retries": f"{status.get('retryCount', 0)} of {spec.get('maxRetry', 3)}",
        "history": ", ".join(each["status"] for each in status.get("conditions") or []),
    }
    for name, text in lines.items():
        for number, line in enumerate(textwrap.wrap(text, console.width - 12)):
            console.print(Text(f"  {'' if number else name:<10}{line}"))


def _state(job: Json) -> Json:
    state: Json = job.get("status", {}).get("state", {})
    return state


def _since(moment: str | None) -> str:
    """To the second, as events tell theirs."""
    return f"since {moment.partition('.')[0].removesuffix('Z')}Z" if moment else ""


def _print_pods(console: Console, pods: list[Json]) -> None:
    if not pods:
        return
    console.print()
    table = plain_table("pod", "task", "phase", "node")
    for pod in sorted(pods, key=lambda pod: str(pod["metadata"]["name"])):
        labels = pod["metadata"]["labels"]
        task = labels.get("volcano.sh/task-spec", "")
        if "volcano.sh/partition-id" in labels:
            task = f"{task}, partition {labels['volcano.sh/partition-id']}"
        leaving = ", leaving" if pod["metadata"].get("deletionTimestamp") else ""
        phase = f"{pod['status'].get('phase', '')}{leaving}"
        table.add_row(*(Text(part) for part in (pod["metadata"]["name"], task, phase, pod["spec"].get("nodeName", ""))))
    console.print(table)


def _print_events(console: Console, events: list[Json]) -> None:
    if not events:
        return
    console.print()
    table = plain_table("time", "reason", "message")
    ordered = sorted(events, key=lambda event: str(event.get("lastTimestamp") or ""))
    for event in ordered[-_EVENTS:]:
        moment = str(event.get("lastTimestamp") or "")
        table.add_row(Text(moment), Text(event.get("reason", "")), Text(event.get("message", "")))
    console.print(table)
