"""Where cases run: a control plane with nodes, somebody who makes pods, somebody who looks on; and what comes out.

Every measurement has a control plane of its own, so that none profits or suffers from what the one before left behind.
No kubelets run unless a case says so: binding is the end then.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from benchmarks.kubernetes import documents
from benchmarks.kubernetes.load import Load, Onlooker
from muster.api.definitions import definitions
from muster.cluster.kubernetes.client.commands import install
from muster.cluster.kubernetes.client.connection import connect
from muster.cluster.kubernetes.client.requests import Client
from muster.testing.control_plane import ControlPlane

#: How long anything may take at most, in seconds.
PATIENCE_S: Final = 900.0
_KUBELETS: Final = Path(__file__).parent / "kubelets.yaml"


@dataclass(slots=True)
class Result:
    """What a case came to."""

    case: str
    work: str
    #: Names of figures say their units.
    figures: dict[str, float]
    goal: str
    is_met: bool


@dataclass(slots=True)
class Field:
    """A control plane with somebody at work on it."""

    plane: ControlPlane
    load: Load
    onlooker: Onlooker


@dataclass(slots=True)
class Run:
    """One run of the benchmarks: its scale, and what cases share."""

    work: Path
    scale: float = 1.0
    _n_fields: int = 0
    _raw: dict[int, dict[str, float]] = field(default_factory=dict)

    def sized(self, count: int, step: int = 1) -> int:
        """A number of the full case, scaled, in whole steps."""
        return max(step, round(count * self.scale / step) * step)

    @asynccontextmanager
    async def field(self, n_nodes: int, *, is_kubelet: bool = False, kwok: bool = False) -> AsyncIterator[Field]:
        """A new control plane with nodes and a queue; `kwok`: pods that are bound run."""
        self._n_fields += 1
        with ControlPlane(self.work / str(self._n_fields), kwok=kwok, kwok_stages=_KUBELETS.read_text()) as plane:
            await asyncio.to_thread(install, definitions(), plane.kubeconfig)
            load = Load(Client(await connect(plane.kubeconfig)))
            onlooker = Onlooker(load, is_kubelet=is_kubelet)
            try:
                await load.create([documents.queue(), *documents.nodes(n_nodes)])
                yield Field(plane, load, onlooker)
            finally:
                await onlooker.stop()
                await load.client.close()

    async def raw(self, n_nodes: int, n_pods: int) -> dict[str, float]:
        """Seconds to create pods, and to post a Binding for each, with no scheduler; measured once per number."""
        if n_pods not in self._raw:
            self._raw[n_pods] = await self.raw_again(n_nodes, n_pods)
        return self._raw[n_pods]

    async def raw_again(self, n_nodes: int, n_pods: int, *, kwok: bool = False) -> dict[str, float]:
        """The same, measured at this moment; `kwok`: and seconds until all run, after the last Binding."""
        names = [f"raw-{number:05d}" for number in range(n_pods)]
        async with self.field(n_nodes, kwok=kwok) as there:
            await there.onlooker.start()  # somebody looks on here too
            began = time.monotonic()
            await there.load.create(documents.pod(name) for name in names)
            created = time.monotonic()
            await there.load.create(
                documents.binding(name, documents.node_name(number % n_nodes)) for number, name in enumerate(names)
            )
            bound = time.monotonic()
            if kwok:
                await there.onlooker.until_running(n_pods, PATIENCE_S)
            run = max(there.onlooker.running.values(), default=bound)
        return {"create": created - began, "bind": bound - created, "run": run - bound}
