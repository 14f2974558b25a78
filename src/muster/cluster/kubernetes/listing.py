"""Everything that scheduling reads, listed once from a live cluster.

What comes out is what a cycle of a scheduler that starts now would see: a `ClusterSnapshot` with the moment, then the
objects, kind by kind and by name. Objects that cannot be read, and kinds that may not be, are left out and named;
without pods and nodes there is nothing to see, and that is an error.
Callers: the commands with `--cluster`, `muster snapshot save`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from muster.api import ClusterSnapshot, ClusterSnapshotSpec, KubeObject
from muster.api.kinds import SnapshotShard
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client import FORBIDDEN, GONE, ApiError, Client
from muster.cluster.kubernetes.connection import connect
from muster.cluster.kubernetes.decoding import ObjectDecoder
from muster.cluster.kubernetes.node_shards import NodeShards
from muster.cluster.kubernetes.resources import EVERYTHING, REQUIRED, Resource, served, wanted_of
from muster.cluster.kubernetes.shard_view import seen_by
from muster.cluster.kubernetes.shards import WHOLE_CLUSTER, Shard
from muster.snapshot.messages import Event

#: Told after every page what is read and how many objects there are of it so far.
Progress = Callable[[str, int], None]


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, which part of it, and for whom."""

    kubeconfig: Path | None = None
    context: str | None = None
    shard: Shard = WHOLE_CLUSTER
    scheduler_names: tuple[str, ...] = ()


@dataclass(slots=True)
class Listing:
    """What was found, and what was not."""

    objects: list[KubeObject] = field(default_factory=list)
    #: One sentence each, for the user.
    left_out: list[str] = field(default_factory=list)


def list_cluster(target: Target, progress: Progress = lambda _kind, _count: None) -> Listing:
    """List a cluster. Raises MusterError, in one sentence that says which server."""
    return asyncio.run(_list_cluster(target, progress))


async def _list_cluster(target: Target, progress: Progress) -> Listing:
    client = Client(await connect(target.kubeconfig, target.context))
    try:
        return await _list_all(client, target, progress)
    except ApiError as fault:
        raise client.explain(fault) from None
    finally:
        await client.close()


async def _list_all(client: Client, target: Target, progress: Progress) -> Listing:
    # Asked once, without patience: a wrong address should not take a minute to find out.
    await client.request("GET", "/version", timeout_s=10.0)
    listing = Listing()
    wanted = [*EVERYTHING, *(wanted_of(NodeShard) if target.shard.node_shard else ())]
    resources = (await served(client, wanted)).values()
    parts = await asyncio.gather(*(_list_kind(client, resource, target, listing, progress) for resource in resources))
    moment = datetime.now(UTC)
    things = [thing for part in parts for thing in part]
    shards = [thing for thing in things if isinstance(thing, NodeShard)]
    part = _part(target.shard, shards, listing)
    found = _one_of_each(
        seen_by(target.shard, (thing for thing in things if not isinstance(thing, NodeShard))), listing
    )
    listing.objects = [_head(target.scheduler_names, moment, part), *found]
    return listing


async def _list_kind(
    client: Client, resource: Resource, target: Target, listing: Listing, progress: Progress
) -> list[KubeObject]:
    selector = target.shard.selector_of(resource.type)
    for is_last in (False, True):
        try:
            bodies = [body async for body in _bodies(client, resource, selector, progress)]
            return sorted(_decoded(bodies, resource, listing), key=lambda thing: thing.key)
        except ApiError as fault:
            if fault.status == FORBIDDEN and resource.type not in REQUIRED:
                listing.left_out.append(f"{resource.plural} left out: you may not list them")
                return []
            # The server may forget a long list before its last page; another attempt is another moment.
            if fault.status != GONE or is_last:
                raise
    raise AssertionError("the last attempt returns or raises")


async def _bodies(client: Client, resource: Resource, selector: str, progress: Progress) -> AsyncIterator[msgspec.Raw]:
    count = 0
    async for page in client.pages(resource.path, selector):
        for body in page.items:
            yield body
        count += len(page.items)
        progress(resource.plural, count)


def _decoded(bodies: Iterable[msgspec.Raw], resource: Resource, listing: Listing) -> Iterator[KubeObject]:
    decoder = ObjectDecoder(resource.type)
    for body in bodies:
        thing, fault = decoder.decode_or_stub(body)
        if fault:
            listing.left_out.append(f"{thing.kind} {thing.key} left out: {fault}")
        if thing.name:
            yield thing


def _one_of_each(objects: Sequence[KubeObject], listing: Listing) -> list[KubeObject]:
    """Where Volcano and KAI have an object of the same kind and name, the first counts, as in the scheduler."""
    first: dict[tuple[str, str], KubeObject] = {}
    for thing in objects:
        standing = first.setdefault((thing.kind, thing.key), thing)
        if standing is not thing:
            families = f"of {thing.api_version}, because there is one of {standing.api_version}"
            listing.left_out.append(f"{thing.kind} {thing.key} {families} left out")
    return list(first.values())


def _part(shard: Shard, known: Sequence[NodeShard], listing: Listing) -> SnapshotShard | None:
    """The nodes that a NodeShard leaves to the scheduler, as the scheduler itself finds them out."""
    if not shard.node_shard:
        return None
    if all(each.name != shard.node_shard for each in known):
        listing.left_out.append(f"all nodes are outside of the shard: there is no NodeShard {shard.node_shard}")
    shards = NodeShards(shard.node_shard, lambda: None)
    shards.observe([Event("ADDED", each) for each in known])
    return SnapshotShard(mode=shard.mode, nodes=sorted(shards.own_nodes))


def _head(scheduler_names: Sequence[str], moment: datetime, part: SnapshotShard | None) -> ClusterSnapshot:
    spec = ClusterSnapshotSpec(taken_at=moment, scheduler_names=list(scheduler_names), shard=part)
    head = ClusterSnapshot(spec=spec)
    head.metadata.name = moment.strftime("%Y-%m-%dt%H-%M-%Sz")
    return head
