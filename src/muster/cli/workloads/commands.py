"""The verbs of `muster job` and `muster queue`; options and help only, as in `muster.cli.commands`."""

# ruff: noqa: PLC0415  # imports inside functions keep the help fast

from __future__ import annotations

from typing import Annotated

import typer

from muster.cli.lists.commands import job_app, queue_app
from muster.cli.options import Context, Kubeconfig, Output, OutputOption

__all__ = ["job_app", "queue_app"]

Namespace = Annotated[str, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of the job.")]
JobName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the Job.")]
QueueName = Annotated[str, typer.Argument(metavar="NAME", help="The name of the queue.")]
Amounts = Annotated[
    str, typer.Option("--capability", metavar="AMOUNTS", help="What it may hold at most, as cpu=64,nvidia.com/gpu=8.")
]


@job_app.command("run", short_help="Make a Job, of a file or of a few options.")
def job_run(
    *,
    file: Annotated[
        str, typer.Option("--filename", "-f", metavar="FILE", help="The Job in YAML or JSON; - reads standard input.")
    ] = "",
    name: Annotated[str, typer.Option("--name", "-N", metavar="NAME", help="The name of the Job.")] = "",
    namespace: Namespace = "default",
    image: Annotated[str, typer.Option("--image", "-i", metavar="IMAGE", help="What its pods run.")] = "busybox",
    replicas: Annotated[int, typer.Option("--replicas", "-r", metavar="N", min=1, help="How many pods.")] = 1,
    minimum: Annotated[
        int, typer.Option("--min", "-m", metavar="N", min=0, help="How many start together; 0: all of them.")
    ] = 0,
    requests: Annotated[
        str, typer.Option("--requests", "-R", metavar="AMOUNTS", help="What each pod requests, as cpu=1,memory=1Gi.")
    ] = "cpu=1000m,memory=100Mi",
    limits: Annotated[
        str, typer.Option("--limits", "-L", metavar="AMOUNTS", help="What each pod may use; empty: what it requests.")
    ] = "",
    queue: Annotated[str, typer.Option("--queue", "-q", metavar="NAME", help="The queue it stands in.")] = "default",
    scheduler: Annotated[
        str, typer.Option("--scheduler", "-S", metavar="NAME", help="The scheduler of its pods.")
    ] = "volcano",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Make a Job of Volcano on a live cluster: the one of a file, or one task with some equal pods.

    Example: muster job run --name hello --image busybox --replicas 4 --requests cpu=1,memory=1Gi
    """
    from muster.cli.workloads.jobs import NewJob, run_job
    from muster.cli.workloads.requests import Server

    wanted = NewJob(name, namespace, image, replicas, minimum, requests, limits, queue, scheduler)
    run_job(Server(kubeconfig, context), file, wanted)


@job_app.command("view", short_help="Show one Job: its phase, pods, events, and why it waits.")
def job_view(
    name: JobName,
    *,
    namespace: Namespace = "default",
    output: OutputOption = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show one Job of a live cluster: its phase and how it came about, its pods, what happened, and why it waits.

    Example: muster job view train --namespace team-a
    """
    from muster.cli.workloads.jobs import view_job
    from muster.cli.workloads.requests import Server

    view_job(Server(kubeconfig, context), f"{namespace}/{name}", output.value)


@job_app.command("suspend", short_help="Let go of a Job's pods; it can go on later.")
def job_suspend(
    name: JobName, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Suspend a Job: its pods are let go of, and none are made until it is resumed.

    Example: muster job suspend train
    """
    from muster.cli.workloads.jobs import command_job
    from muster.cli.workloads.requests import Server

    command_job(Server(kubeconfig, context), f"{namespace}/{name}", "AbortJob", "suspended")


@job_app.command("resume", short_help="Let a suspended Job go on.")
def job_resume(
    name: JobName, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Resume a Job that was suspended: pods that had not ended by then are made anew.

    Example: muster job resume train
    """
    from muster.cli.workloads.jobs import command_job
    from muster.cli.workloads.requests import Server

    command_job(Server(kubeconfig, context), f"{namespace}/{name}", "ResumeJob", "resumed")


@job_app.command("delete", short_help="Delete a Job and all that was made of it.")
def job_delete(
    name: JobName, *, namespace: Namespace = "default", kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Delete a Job; its pods, PodGroup, claims and services go with it.

    Example: muster job delete train
    """
    from muster.cli.workloads.jobs import delete_job
    from muster.cli.workloads.requests import Server

    delete_job(Server(kubeconfig, context), f"{namespace}/{name}")


@queue_app.command("create", short_help="Make a queue.")
def queue_create(
    name: QueueName,
    *,
    weight: Annotated[int, typer.Option("--weight", "-w", metavar="N", min=1, help="Its share of what is left.")] = 1,
    capability: Amounts = "",
    deserved: Annotated[
        str, typer.Option("--deserved", metavar="AMOUNTS", help="What it is entitled to, as nvidia.com/gpu=8.")
    ] = "",
    parent: Annotated[str, typer.Option("--parent", metavar="NAME", help="The queue above it.")] = "",
    reclaimable: Annotated[
        bool, typer.Option("--reclaimable/--no-reclaimable", help="Whether others may take back what it borrows.")
    ] = True,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Make a queue on a live cluster.

    Example: muster queue create research --deserved nvidia.com/gpu=16 --capability nvidia.com/gpu=32
    """
    from muster.cli.workloads.queues import create_queue
    from muster.cli.workloads.requests import Server

    spec = {"weight": weight, "reclaimable": reclaimable, **({"parent": parent} if parent else {})}
    create_queue(Server(kubeconfig, context), name, spec, {"capability": capability, "deserved": deserved})


@queue_app.command("get", short_help="Show one queue: state, amounts, and how many jobs it has.")
def queue_get(
    name: QueueName, *, output: OutputOption = Output.TABLE, kubeconfig: Kubeconfig = None, context: Context = None
) -> None:
    """Show one queue of a live cluster; `muster queue list` shows all, with who waits and why.

    Example: muster queue get research
    """
    from muster.cli.workloads.queues import get_queue
    from muster.cli.workloads.requests import Server

    get_queue(Server(kubeconfig, context), name, output.value)


@queue_app.command("open", short_help="Let jobs into a queue again.")
def queue_open(name: QueueName, *, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Open a queue that was closed.

    Example: muster queue open research
    """
    from muster.cli.workloads.queues import command_queue
    from muster.cli.workloads.requests import Server

    command_queue(Server(kubeconfig, context), name, "OpenQueue", "opens")


@queue_app.command("close", short_help="Let no more jobs into a queue; those in it run to their end.")
def queue_close(name: QueueName, *, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Close a queue: it is `Closing` while jobs are in it, and `Closed` after the last one.

    Example: muster queue close research
    """
    from muster.cli.workloads.queues import command_queue
    from muster.cli.workloads.requests import Server

    command_queue(Server(kubeconfig, context), name, "CloseQueue", "closes")


@queue_app.command("delete", short_help="Delete a queue.")
def queue_delete(name: QueueName, *, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Delete a queue; one that holds jobs should be closed first.

    Example: muster queue delete research
    """
    from muster.cli.workloads.queues import delete_queue
    from muster.cli.workloads.requests import Server

    delete_queue(Server(kubeconfig, context), name)
