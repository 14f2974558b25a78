"""What commands ask of a live cluster, once and without a scheduler: list everything, or install definitions.

A listing is what a cycle of a scheduler that starts now would see: a `ClusterSnapshot` with the moment, then the
objects, kind by kind and by name. Objects that cannot be read, and kinds that may not be, are left out and named;
without pods and nodes there is nothing to see, and that is an error.
Installing makes the custom resource definitions that are missing and brings those that are ours up to date; one that
somebody else installed (Volcano's own) is left as it is.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from muster.api import BackendError, ClusterSnapshot, ClusterSnapshotSpec, KubeObject
from muster.api.definitions import MANAGED_BY
from muster.api.kinds import SnapshotShard
from muster.api.objects.topology import NodeShard
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.kinds import EVERYTHING, REQUIRED, ObjectDecoder, Resource, served, wanted_of
from muster.cluster.kubernetes.client.requests import FORBIDDEN, GONE, ApiError, Client
from muster.cluster.kubernetes.client.shards import NodeShards, Shard, Target, seen_by
from muster.snapshot.messages import Event

Json = dict[str, Any]  # Any: a document

_PATH: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_ESTABLISH_SECONDS: Final = 30.0
#: Told after every page what is read and how many objects there are of it so far.
Progress = Callable[[str, int], None]


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


@dataclass(frozen=True, slots=True)
class Installed:
    """What was done about one definition."""

    name: str
    outcome: Literal["created", "updated", "unchanged", "kept"]
    #: The version that a definition of somebody else does not serve, though Muster needs it.
    lacks: str = ""


def install(
    documents: Iterable[Json], kubeconfig: Path | None = None, context: str | None = None, *, dry_run: bool = False
) -> list[Installed]:
    """Install definitions and wait until the server serves them; or only let it check them. Raises MusterError."""

    async def run() -> list[Installed]:
        client = Client(await connect(kubeconfig, context))
        try:
            return [await _install(client, document, dry_run=dry_run) for document in documents]
        finally:
            await client.close()

    return asyncio.run(run())


async def _install(client: Client, document: Json, *, dry_run: bool) -> Installed:
    name = document["metadata"]["name"]
    query = "?dryRun=All" if dry_run else ""
    standing = await _get(client, name)
    if standing is None:
        await client.send("POST", f"{_PATH}{query}", msgspec.json.encode(document))
        if not dry_run:
            await _until_established(client, name)
        return Installed(name, "created")
    if not MANAGED_BY.items() <= standing["metadata"].get("labels", {}).items():
        return Installed(name, "kept", _lacking(document, standing))
    version = standing["metadata"]["resourceVersion"]
    updated = {**document, "metadata": {**document["metadata"], "resourceVersion": version}}
    answer = await client.send("PUT", f"{_PATH}/{name}{query}", msgspec.json.encode(updated))
    same = msgspec.json.decode(answer)["metadata"]["resourceVersion"] == version
    return Installed(name, "unchanged" if same else "updated")


def _lacking(wanted: Json, standing: Json) -> str:
    """The version of ours that a definition of somebody else does not serve."""
    served = {known["name"] for known in standing["spec"]["versions"] if known["served"]}
    return next((known["name"] for known in wanted["spec"]["versions"] if known["name"] not in served), "")


async def _get(client: Client, name: str) -> Json | None:
    try:
        return msgspec.json.decode(await client.send("GET", f"{_PATH}/{name}"), type=Json)
    except ApiError as fault:
        if fault.status == 404:
            return None
        raise


async def _until_established(client: Client, name: str) -> None:
    until = time.monotonic() + _ESTABLISH_SECONDS
    while time.monotonic() < until:
        found = await _get(client, name)
        conditions = [] if found is None else found.get("status", {}).get("conditions") or []
        if any(known["type"] == "Established" and known["status"] == "True" for known in conditions):
            return
        await asyncio.sleep(0.1)
    raise BackendError(f"{name} was not served in {_ESTABLISH_SECONDS:.0f} s", retryable=True)
