"""What may not be meant in objects that are to be simulated: HyperNodes out of use, and what webhooks would warn of.

Nothing of this is refused, as on a cluster. What can be said of each object alone, and of names that nobody has, is
said where files are read.
"""

from __future__ import annotations

from collections.abc import Iterator

from muster.api import ClusterSnapshot, HyperNode, LoadedFiles, Node, UserError
from muster.api.objects.batch import Job, JobFlow
from muster.snapshot.hypernodes import build_forest


def notes_on(loaded: LoadedFiles) -> Iterator[str]:
    """Yield a line for each; nothing about saved clusters, which were warned of there."""
    objects = loaded.objects
    if any(isinstance(thing, ClusterSnapshot) for thing in objects):
        return
    places = {f"{each.object.kind} {each.object.key}": str(each.source) for each in loaded}
    for subject, field, text in (*_of_hyper_nodes(loaded), *_of_jobs(loaded)):
        yield str(UserError(text, place=places[subject], subject=subject, field=field))


def _of_hyper_nodes(loaded: LoadedFiles) -> Iterator[tuple[str, str, str]]:
    hyper_nodes = {thing.name: thing for thing in loaded.objects if isinstance(thing, HyperNode)}
    if not hyper_nodes:
        return
    nodes = {thing.name: thing for thing in loaded.objects if isinstance(thing, Node)}
    for name, text in build_forest(hyper_nodes, nodes).faults.items():
        yield f"HyperNode {name}", "spec.members", f"{text}; it is out of use until this is corrected"


def _of_jobs(loaded: LoadedFiles) -> Iterator[tuple[str, str, str]]:
    jobs = [thing for thing in loaded.objects if isinstance(thing, Job | JobFlow)]
    if not jobs:
        return
    from muster.admission import Facts  # noqa: PLC0415  # webhooks load slowly
    from muster.simulate.workloads import cautions  # noqa: PLC0415  # and so do the plugins of Jobs

    for thing, found in cautions(jobs, Facts.of(loaded.objects)):
        yield f"{thing.kind} {thing.key}", found.field, found.text
