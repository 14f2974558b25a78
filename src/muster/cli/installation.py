"""The commands around an installation: `muster crds …`, `muster snapshot …` and `muster webhooks …`.

Options and help only, as in `commands`; imports inside functions keep `muster --help` fast.
"""

# ruff: noqa: PLC0415  # see above

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import (
    Context,
    DocumentOption,
    DocumentOutput,
    Kubeconfig,
    NodePool,
    NodeSelector,
    SchedulerNames,
    ShardMode,
    ShardModeOption,
    ShardName,
    help_without_command,
    label_selector,
    waiting_time,
)

crds_app = typer.Typer(help="Print and install the definitions of Muster's kinds.", rich_markup_mode=None)
snapshot_app = typer.Typer(help="Store what the scheduler sees of a live cluster.", rich_markup_mode=None)
webhooks_app = typer.Typer(help="Check and complete objects as they are written.", rich_markup_mode=None)


# -- CRDs ------------------------------------------------------------------------------------------------------


@crds_app.callback(invoke_without_command=True)
def crds_root(context: typer.Context) -> None:
    """Print and install the definitions of PodGroup, Queue, HyperNode and Job."""
    help_without_command(context)


@crds_app.command("print", short_help="Print the definitions, for kubectl or a chart.")
def crds_print(
    kinds: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="KIND...",
            help="PodGroup, Queue, HyperNode, Job and so on; all when none is named.",
            show_default=False,
        ),
    ] = None,
    *,
    output: DocumentOption = DocumentOutput.YAML,
) -> None:
    """Print the definitions of KINDs, or of all, for kubectl or a chart.

    Example: muster crds print | kubectl create -f -
    """
    from muster.cli.manifests import print_definitions

    print_definitions(kinds or (), output.value)


@crds_app.command("install", short_help="Install the definitions in a cluster.")
def crds_install(
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Let the server check everything, and change nothing.")
    ] = False,
) -> None:
    """Install the definitions in a cluster, and bring those up to date that Muster installed before.

    Definitions that somebody else installed, such as Volcano's own, are left as they are and used. Exits with 1 when
    one of those does not serve the version that Muster needs.

    Example: muster crds install --kubeconfig ~/.kube/config
    """
    from muster.cli.manifests import print_installed

    if not print_installed(kubeconfig, context, dry_run=dry_run):
        raise typer.Exit(1)


# -- snapshots of a live cluster -------------------------------------------------------------------------------


@snapshot_app.callback(invoke_without_command=True)
def snapshot_root(context: typer.Context) -> None:
    """Store what the scheduler sees of a live cluster."""
    help_without_command(context)


@snapshot_app.command("save", short_help="Store everything that a cycle would see now.")
def snapshot_save(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="Where to: .jsonl, .json or .yaml, and .gz after it to pack it.")
    ],
    *,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    node_selector: NodeSelector = None,
    node_pool: NodePool = None,
    shard: ShardName = "",
    shard_mode: ShardModeOption = ShardMode.HARD,
    all_annotations: Annotated[
        bool, typer.Option("--all-annotations", help="Keep annotations that no plugin of Muster's reads, too.")
    ] = False,
) -> None:
    """Store everything that a scheduling cycle would see of a live cluster now, so that it can be replayed.

    Kept are the kinds and fields that scheduling reads: no Secrets or ConfigMaps, and of pods neither commands nor
    environment. `muster simulate FILE` and `muster explain JOB FILE` decide as the scheduler would have at that moment;
    a scheduler that works on a part of the cluster needs the options here that say so to `muster run`.

    Example: muster snapshot save before.jsonl.gz
    """
    from muster.cli.sources import SCHEDULER_NAMES, save
    from muster.cluster.kubernetes import Shard
    from muster.cluster.kubernetes.client.shards import Target

    names = tuple(scheduler_name or SCHEDULER_NAMES)
    target = Target(
        kubeconfig, context, Shard(label_selector(node_selector), node_pool, shard, shard_mode.value), names
    )
    save(file, target, all_annotations=all_annotations)


# -- webhooks --------------------------------------------------------------------------------------------------


class FailurePolicy(StrEnum):
    """What happens to objects while nobody answers."""

    FAIL = "Fail"
    IGNORE = "Ignore"


OurNames = Annotated[
    list[str],
    typer.Option("--scheduler-name", metavar="NAME", help="Pods that name this are checked; repeatable."),
]


@webhooks_app.callback(invoke_without_command=True)
def webhooks_root(context: typer.Context) -> None:
    """Check HyperNodes, Queues, PodGroups, Jobs, JobFlows and pods as they are written; fill in what is left open."""
    help_without_command(context)


@webhooks_app.command("serve", short_help="Answer an API server's questions about objects.")
def webhooks_serve(
    *,
    cert: Annotated[
        Path, typer.Option("--cert", metavar="FILE", help="Certificate in PEM; read again when it changes.")
    ],
    key: Annotated[Path, typer.Option("--key", metavar="FILE", help="Its key in PEM; read again when it changes.")],
    listen: Annotated[str, typer.Option("--listen", metavar="ADDRESS", help="Where questions are answered.")] = ":8443",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: OurNames = ["volcano"],  # noqa: B006  # the command library copies it
    max_queue_depth: Annotated[
        int, typer.Option("--max-queue-depth", metavar="N", min=1, help="Levels of queues below the root.")
    ] = 5,
    guard_busy_queues: Annotated[
        bool,
        typer.Option("--guard-busy-queues/--no-guard-busy-queues", help="Refuse to delete queues that hold pods."),
    ] = False,
    job_plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--job-plugin",
            metavar="NAME",
            help="A plugin of Jobs beside those of Volcano's controller; repeatable.",
            show_default=False,
        ),
    ] = None,
    drain: Annotated[
        float,
        typer.Option(
            "--drain",
            metavar="TIME",
            parser=waiting_time(0.0),
            show_default=False,
            help="Answer for as long after SIGTERM, until nobody is sent here; else 5s.",
        ),
    ] = 5.0,
) -> None:
    """Answer an API server's questions about objects over HTTPS, until SIGTERM.

    What is refused is logged to the standard error stream, one line each. /healthz and /readyz answer probes.

    Example: muster webhooks serve --cert tls.crt --key tls.key --listen :8443
    """
    from muster.admission import Settings
    from muster.cli.services import parse_address, serve_webhooks
    from muster.server.webhook_service import WebhookOptions

    settings = Settings(tuple(scheduler_name), max_queue_depth, guard_busy_queues=guard_busy_queues).with_job_plugins(
        job_plugin or ()
    )
    serve_webhooks(WebhookOptions(cert, key, parse_address(listen), kubeconfig, context, settings, drain))


@webhooks_app.command("print", short_help="Print the objects that register the server.")
def webhooks_print(
    *,
    service: Annotated[
        str, typer.Option("--service", metavar="NAMESPACE/NAME", help="The Service in front of the server, port 443.")
    ] = "muster-system/muster-webhooks",
    url: Annotated[
        str, typer.Option("--url", metavar="URL", help="The server's address, where it is not behind a Service.")
    ] = "",
    ca_file: Annotated[
        Path | None,
        typer.Option("--ca-file", metavar="FILE", help="Certificates that the server's own is signed with, in PEM."),
    ] = None,
    failure_policy: Annotated[
        FailurePolicy,
        typer.Option("--failure-policy", help="What happens while nobody answers; pods are never held up."),
    ] = FailurePolicy.FAIL,
    scheduler_name: OurNames = ["volcano"],  # noqa: B006  # the command library copies it
    output: DocumentOption = DocumentOutput.YAML,
) -> None:
    """Print the Validating- and MutatingWebhookConfiguration that make an API server ask.

    Example: muster webhooks print --ca-file ca.crt | kubectl apply -f -
    """
    from muster.cli.manifests import print_configurations

    print_configurations(service, url, ca_file, failure_policy.value, tuple(scheduler_name), output.value)
