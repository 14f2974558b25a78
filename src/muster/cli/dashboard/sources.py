"""What `muster ui` shows: options made into a feed, and the server started on it."""

from __future__ import annotations

import shlex
import webbrowser
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from muster.api import UserError
from muster.cli.demo.story import OBJECTS, TIMELINE, reached
from muster.cli.simulation import RunOptions, prepare
from muster.framework import default_config
from muster.simulate.run import quietly
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.runs import Runs
from muster.ui.serve import ServeOptions, serve


@dataclass(frozen=True, slots=True)
class Shown:
    """What the options of the command say, as given."""

    run: RunOptions
    is_demo: bool = False
    is_snapshot: bool = False
    replays: tuple[Path, ...] = ()
    listen: str = "127.0.0.1:8330"
    token_file: Path | None = None
    tls: tuple[Path | None, Path | None] = (None, None)
    speed: float | None = None
    opens_browser: bool = False


def show(shown: Shown) -> None:
    """Serve until interrupted. Raises MusterError."""
    _check(shown)
    host, port = address_of(shown.listen, "--listen")
    runs = Runs(shown.replays)
    runs.check()
    feed = make_feed(shown)
    options = ServeOptions(
        host, port, shown.token_file, ask=getattr(feed, "ask", None), cert=shown.tls[0], key=shown.tls[1]
    )

    def ready(address: str) -> None:
        typer.echo(f"{feed.label.title}: {address}  (Ctrl-C ends it)")
        if shown.opens_browser:
            webbrowser.open(address)

    with quietly():  # what cycles decide is on the page
        serve(feed, runs, options, ready)


def make_feed(shown: Shown) -> Feed:
    """The feed that the options ask for, everything read and checked. Raises MusterError."""
    run = shown.run
    if shown.is_demo:
        source = replace(run.source, files=[str(OBJECTS)])
        run = replace(run, source=source, timeline=run.timeline or TIMELINE)
        label = Label("files", "the demo", f"{reached(OBJECTS)} --timeline {reached(run.timeline or TIMELINE)}")
    elif run.source.cluster:
        from muster.ui.live import LiveFeed  # noqa: PLC0415  # files must not wait for the client of a cluster

        source = run.source
        return LiveFeed(source.kubeconfig, source.context, source.scheduler_names, run.config, words=_words(run))
    elif not run.source.files:
        feed = Feed(Label("replay", "replays"), default_config())
        feed.has_ended = True
        return feed
    else:
        first, *more = (_called(name) for name in run.source.files)
        title = f"{first} and {len(more)} more" if more else first
        label = Label("snapshot" if shown.is_snapshot else "files", title, _words(run))
    prepared = prepare(run)
    played = Played(
        prepared.objects,
        prepared.config,
        prepared.timeline,
        run.source.scheduler_names,
        run.cycles,
        run.seconds,
        run.seed,
        shown.speed,
    )
    return FileFeed(label, played)


def _called(name: str) -> str:
    """A file by its name; a folder with the one around it, since many are called `now` or `manifests`."""
    path = Path(name)
    return f"{path.parent.name}/{path.name}" if path.is_dir() and path.parent.name else path.name or name


def _words(run: RunOptions) -> str:
    """The options that a command on the same objects has."""
    source = run.source
    given = ["--cluster"] if source.cluster else [*source.files]
    for name in source.scheduler_names:
        given += ["--scheduler-name", name]
    for option, value in (
        ("--kubeconfig", source.kubeconfig),
        ("--context", source.context),
        ("--timeline", run.timeline),
        ("--config", run.config),
        ("--until", run.until),
        ("--seed", run.seed or None),
    ):
        given += [option, str(value)] if value is not None else []
    return shlex.join(given)


def _check(shown: Shown) -> None:
    source = shown.run.source
    sources = [bool(source.files), source.cluster, shown.is_demo]
    if sum(sources) > 1:
        raise UserError("FILEs, --snapshot, --cluster and --demo exclude each other; give one of them")
    if not any(sources) and not shown.replays:
        raise UserError("expected FILEs, --cluster, --snapshot FILE, --replay DIR or --demo: what is to be shown?")
    if (shown.tls[0] is None) != (shown.tls[1] is None):
        raise UserError("--cert and --key belong together; give both")
    if source.cluster and (shown.run.until or shown.run.cycles or shown.run.timeline or shown.speed):
        raise UserError("--until, --cycles, --timeline and --speed are about files; a live cluster has its own time")


def address_of(text: str, option: str) -> tuple[str, int | None]:
    """Host and port; the usual port gives way to the next one that is free. Raises UserError."""
    host, colon, port = text.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise UserError(f'{option}: expected HOST:PORT such as 127.0.0.1:8330, got "{text}"')
    is_usual = text == "127.0.0.1:8330"
    return host.strip("[]") or "0.0.0.0", None if is_usual else int(port)  # noqa: S104  # asked for by ":PORT"
