"""`muster replay` and `muster compare`: options and help only, as in `muster.cli.commands`."""

# ruff: noqa: PLC0415  # imports inside functions keep the help fast

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from muster.cli.options import Config, Output, OutputOption, Seed, waiting_time

_JOBS = "A table of jobs (CSV, also packed; the export of Slurm's sacct), objects with run times, or a scheduler's log."
Jobs = Annotated[Path, typer.Argument(metavar="JOBS", help=_JOBS)]
_NODES = "A table of nodes, objects, a saved snapshot, or so many equal nodes: 88x8, with CPUs 88x8x48."
Since = Annotated[str, typer.Option("--since", metavar="TIME", help="Leave out jobs that came earlier.")]
Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="Leave out jobs that came then or later.")]
Column = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="MEANING=NAME",
        help="What a column is called: id, submit, duration, tasks, gpus, cpus, memory, queue, priority, user.",
        show_default=False,
    ),
]
OneQueue = Annotated[
    str, typer.Option("--one-queue", metavar="NAME", help="Put all jobs into this queue, whatever rows say.")
]
GpuOnly = Annotated[bool, typer.Option("--gpu-only", help="Leave out jobs that ask for no GPU.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, metavar="N", help="Only so many jobs, the first ones.")]
Period = Annotated[
    float,
    typer.Option(
        "--period",
        metavar="TIME",
        parser=waiting_time(0.0),
        show_default=False,
        help="Between two cycles at least; else 1s.",
    ),
]
Grace = Annotated[str, typer.Option("--grace", metavar="TIME", help="How long evicted pods take to leave.")]
Checkpoint = Annotated[
    str | None,
    typer.Option(
        "--checkpoint", metavar="TIME", help="How often jobs save their work, 0: always; else all of it is lost."
    ),
]


def replay(
    jobs: Jobs,
    *,
    nodes: Annotated[str, typer.Option("--nodes", metavar="FILE|NxG", help=_NODES)] = "",
    config: Config = None,
    name: Annotated[
        str,
        typer.Option("--name", metavar="NAME", help="What the run is called in the report; else the configuration."),
    ] = "",
    seed: Seed = 0,
    estimates: Annotated[
        str,
        typer.Option(
            "--estimates",
            metavar="WORD",
            help="What the scheduler is told about run times: exact, none, or factor:5, wrong by up to 5.",
        ),
    ] = "exact",
    since: Since = "0",
    until: Until = None,
    column: Column = None,
    one_queue: OneQueue = "",
    gpu_only: GpuOnly = False,
    limit: Limit = None,
    period: Period = 1.0,
    grace: Grace = "0",
    checkpoint: Checkpoint = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write report.json, report.html and jobs.csv there."),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with the replay that was interrupted in DIR.")
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Run the scheduler on a trace of JOBS, on a virtual clock, and report how it did.

    Jobs come when the trace says and run for as long as it says, once they have been started. Only cycles that can
    change something are run. The same trace, configuration and seed give the same decisions.

    Example: muster replay jobs.csv --nodes 88x8 --out report
    """
    from muster.cli.lab.replays import ReplayCommand, run_replay
    from muster.lab.sources.inputs import Part

    part = Part(since, until, tuple(column or ()), one_queue, gpu_only, limit)
    command = ReplayCommand(jobs, nodes, config, name, seed, estimates, part, period, grace, checkpoint, out, resume)
    run_replay(command, output.value)


def compare(
    jobs: Annotated[list[Path], typer.Argument(metavar="JOBS...", help=_JOBS)],
    *,
    nodes: Annotated[
        list[str] | None, typer.Option("--nodes", metavar="FILE|NxG", help=f"{_NODES} Repeatable.")
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config",
            metavar="FILE|PROFILE",
            help="A configuration, a profile or policy:NAME, repeatable; NAME=FILE calls it so. The first is what the "
            "others are judged by.",
            show_default=False,
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="Run each so often, with other seeds.")] = 3,
    vary: Annotated[
        str,
        typer.Option(
            "--vary",
            metavar="WORD",
            help="What seeds change in the trace: jitter:10m, when jobs come, by up to so much; sample:0.9, which of "
            "them; none. Seed 0 is the trace as it is.",
        ),
    ] = "jitter:10m",
    estimates: Annotated[
        list[str] | None,
        typer.Option(
            "--estimates",
            metavar="WORD",
            help="What the scheduler is told about run times: exact, none, or factor:5, wrong by up to 5. Repeatable.",
            show_default=False,
        ),
    ] = None,
    since: Since = "0",
    until: Until = None,
    column: Column = None,
    one_queue: OneQueue = "",
    gpu_only: GpuOnly = False,
    limit: Limit = None,
    period: Period = 1.0,
    grace: Grace = "0",
    checkpoint: Checkpoint = None,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, metavar="N", help="Runs at a time; else one for each core.")
    ] = None,
    dask: Annotated[
        str,
        typer.Option("--dask", metavar="ADDRESS", help="Run on the Dask cluster whose scheduler is there."),
    ] = "",
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="Write compare.json and compare.html there, and keep every run."),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Take runs from DIR that were done there before.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Replay several traces of JOBS under several configurations or clusters, and say which is better at what.

    Every configuration runs on every trace and cluster, once for each seed, in parallel. Figures come with the
    interval that holds their mean with a confidence of 95 %, and with a verdict beside the first configuration.

    Example: muster compare jobs.csv --nodes 88x8 --config policy:skip --config muster --out comparison
    """
    from muster.cli.lab.comparisons import CompareCommand, run_compare
    from muster.lab.sources.inputs import Part

    command = CompareCommand(
        jobs=tuple(jobs),
        nodes=tuple(nodes or ("",)),
        configs=tuple(config or ("muster",)),
        n_seeds=seeds,
        vary=vary,
        estimates=tuple(estimates or ("exact",)),
        part=Part(since, until, tuple(column or ()), one_queue, gpu_only, limit),
        period=period,
        grace=grace,
        checkpoint=checkpoint,
        workers=workers,
        dask=dask,
        out=out,
        resume=resume,
    )
    run_compare(command, output.value)
