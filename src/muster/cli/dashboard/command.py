"""The options of `muster ui`, with their help."""

# ruff: noqa: PLC0415  # imports inside of the command keep `muster --help` fast

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import (
    AllowUnknown,
    Cluster,
    Config,
    Context,
    Cycles,
    Files,
    Kubeconfig,
    SchedulerNames,
    Seed,
    Timeline,
    Until,
    start_small,
)


def ui(
    files: Files = None,
    *,
    cluster: Cluster = False,
    snapshot: Annotated[
        Path | None, typer.Option("--snapshot", metavar="FILE", help="Show a moment that `muster snapshot save` kept.")
    ] = None,
    replay: Annotated[
        list[Path] | None,
        typer.Option(
            "--replay",
            metavar="DIR",
            help="Show a run of `muster replay --out DIR`, or all runs below DIR; repeatable, beside other sources.",
            show_default=False,
        ),
    ] = None,
    demo: Annotated[bool, typer.Option("--demo", help="Show the story of `muster demo`.")] = False,
    listen: Annotated[
        str,
        typer.Option(
            "--listen",
            metavar="ADDRESS",
            help="Where to answer, HOST:PORT. Beyond loopback a token is needed.",
        ),
    ] = "127.0.0.1:8330",
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="Only who bears the token in this file may read."),
    ] = None,
    cert: Annotated[
        Path | None, typer.Option("--cert", metavar="FILE", help="Certificate to answer over TLS with.")
    ] = None,
    key: Annotated[Path | None, typer.Option("--key", metavar="FILE", help="Key of the certificate.")] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    scheduler_name: SchedulerNames = None,
    allow_unknown: AllowUnknown = False,
    config: Config = None,
    cycles: Cycles = None,
    until: Until = None,
    seed: Seed = 0,
    timeline: Timeline = None,
    speed: Annotated[
        float | None,
        typer.Option(
            "--speed",
            metavar="N",
            min=0.001,
            help="Play N seconds of the virtual clock in a real one; else as fast as it goes.",
            show_default=False,
        ),
    ] = None,
    browser: Annotated[bool, typer.Option("--open", help="Open the page in the browser of this machine.")] = False,
) -> None:
    """Show cluster, queues, jobs and every decision in a browser.

    FILEs are simulated as by `muster simulate`, and every cycle can be looked at; --cluster shows a live one as it
    changes. The server only reads. On loopback it needs no token; elsewhere it asks for one, which it makes and prints
    unless --token-file gives it, or which the cluster reviews: each reader sees the namespaces that the cluster shows
    them.

    Example: muster ui examples/demo --timeline examples/demo/pretrain.timeline
    """
    start_small(files, timeline)
    from muster.cli.dashboard.sources import Shown, show
    from muster.cli.simulation import RunOptions
    from muster.cli.sources import ObjectSource

    given = [*(files or ()), *([str(snapshot)] if snapshot is not None else [])]
    source = ObjectSource(given, cluster, kubeconfig, context, tuple(scheduler_name or ()), allow_unknown)
    options = RunOptions(source, config, cycles, until, seed, timeline)
    show(
        Shown(
            options,
            is_demo=demo,
            is_snapshot=snapshot is not None,
            replays=tuple(replay or ()),
            listen=listen,
            token_file=token_file,
            tls=(cert, key),
            speed=speed,
            opens_browser=browser,
        )
    )
