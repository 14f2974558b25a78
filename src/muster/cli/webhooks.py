"""The commands `muster webhooks …`: admission rules as a server, and the objects that register it."""

# ruff: noqa: PLC0415  # imports inside functions keep `muster --help` fast, as in `commands`

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Context, Kubeconfig

webhooks_app = typer.Typer(help="Check and complete objects as they are written.", rich_markup_mode=None)


class ConfigurationOutput(StrEnum):
    """Formats of `muster webhooks print`."""

    YAML = "yaml"
    JSON = "json"


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
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())
        raise typer.Exit


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
    ] = True,
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
            "--drain", metavar="SECONDS", min=0, help="Answer for as long after SIGTERM, until nobody is sent here."
        ),
    ] = 5.0,
) -> None:
    """Answer an API server's questions about objects over HTTPS, until SIGTERM.

    What is refused is logged to the standard error stream, one line each. /healthz and /readyz answer probes.

    Example: muster webhooks serve --cert tls.crt --key tls.key --listen :8443
    """
    from muster.admission import Settings
    from muster.cli.webhook_service import WebhookOptions, serve_webhooks

    settings = Settings(tuple(scheduler_name), max_queue_depth, guard_busy_queues=guard_busy_queues).with_job_plugins(
        job_plugin or ()
    )
    serve_webhooks(WebhookOptions(cert, key, listen, kubeconfig, context, settings, drain))


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
    output: Annotated[
        ConfigurationOutput, typer.Option("--output", help="How to print them.")
    ] = ConfigurationOutput.YAML,
) -> None:
    """Print the Validating- and MutatingWebhookConfiguration that make an API server ask.

    Example: muster webhooks print --ca-file ca.crt | kubectl apply -f -
    """
    from muster.cli.webhook_service import print_configurations

    print_configurations(service, url, ca_file, failure_policy.value, tuple(scheduler_name), output.value)
