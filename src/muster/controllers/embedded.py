"""Controllers on the embedded cluster: in the same process and on its clock, before the scheduler looks.

What the embedded cluster has no type for (Services, ConfigMaps, Secrets, NetworkPolicies) is kept here as documents.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final, Protocol

from msgspec.structs import replace

from muster.api import KINDS, WORKLOADS, InternalError, KubeObject, encode
from muster.api.kinds import decode_as
from muster.api.names import OUT_OF_SYNC
from muster.controllers.contract import (
    Action,
    Apply,
    Ask,
    Controller,
    Create,
    Delete,
    EventKind,
    Fetch,
    Json,
    Patch,
    Plan,
    Target,
    Tell,
    WriteStatus,
    merged,
    stamp,
)
from muster.controllers.cron import CronController
from muster.controllers.flows import FlowController
from muster.controllers.grouping.controller import GroupingController
from muster.controllers.grouping.table import Table
from muster.controllers.jobs.controller import JobController
from muster.controllers.played.controller import WorkloadPlayer
from muster.controllers.queues import QueueController

#: Rounds of news and plans at one moment, after which controllers are going in circles.
_ROUNDS: Final = 1000
_TYPES: Final = {**KINDS, **WORKLOADS}


def served(server: EmbeddedServer, *, repeats: bool = False, table: Table | None = None) -> EmbeddedControllers:
    """All controllers, on an embedded cluster; nobody is there to use a key, so none is made.

    Operators of others are played. A pod that nobody owns stays a gang of one, as the scheduler sees it anyway.
    `repeats`: whether CronJobs go on for ever, which only ends where somebody sets a limit.
    """
    jobs = JobController(make_keys=lambda: ("simulated", "simulated"))
    made: list[Controller] = [CronController(repeats=repeats), FlowController(), jobs, QueueController()]
    grouping = GroupingController(table, lone=False, asks_again=False)
    return EmbeddedControllers(server, [*made, WorkloadPlayer(repeats=repeats), grouping])


class EmbeddedServer(Protocol):
    """What is needed of the embedded cluster."""

    def now(self) -> float: ...

    def news(self) -> Sequence[tuple[EventKind, KubeObject]]: ...

    def find(self, kind: type[KubeObject], key: str) -> KubeObject | None: ...

    def add(self, objects: Sequence[KubeObject]) -> None: ...

    def replace_object(self, thing: KubeObject) -> None: ...

    def remove(self, thing: KubeObject) -> None: ...


class EmbeddedControllers:
    """Runs controllers on an embedded cluster."""

    def __init__(self, server: EmbeddedServer, controllers: Sequence[Controller]) -> None:
        self._server = server
        self._controllers = controllers
        self._made: Counter[str] = Counter()
        #: What stands beside pods, by kind and key.
        self.beside: dict[tuple[str, str], Json] = {}
        #: What was told about objects, in order.
        self.told: list[Tell] = []

    def run(self) -> None:
        """Do what is due, until nothing is. Raises UserError for what cannot be made."""
        for _ in range(_ROUNDS):
            now = self._server.now()
            for kind, thing in self._server.news():
                for controller in self._controllers:
                    controller.take(kind, thing, now)
            if not sum(self._turn(controller, now) for controller in self._controllers):
                return
        raise InternalError(f"controllers do not come to rest: {_ROUNDS} rounds at one moment")

    def due(self) -> float | None:
        """When there is something to do though nothing happens."""
        moments = [moment for each in self._controllers if (moment := each.due()) is not None]
        return min(moments, default=None)

    def _turn(self, controller: Controller, now: float) -> int:
        done = 0
        for step in controller.steps(now):
            fault = self._carry_out(step.plan)
            controller.settle(step.key, now, fault)
            done += bool(step.plan.actions) and not fault
        return done

    def _carry_out(self, plan: Plan) -> str:
        for action in plan.actions:
            fault = self._do(action)
            if fault:
                return fault
        return ""

    def _do(self, action: Action) -> str:
        match action:
            case Create(document) | Apply(document):
                return self._make(document)
            case Delete(target, mark):
                self._delete(target, mark=mark)
            case Patch(target, merge, _):
                self._change(target, merge)
            case WriteStatus(target, status, _):
                self._change(target, {"status": status}, whole=True)
            case Fetch(target, answer):
                thing = self._find(target)
                answer(*((None, "is not there") if thing is None else ({"metadata": {}, **encode(thing)}, "")))
            case Tell():
                self.told.append(action)
            case Ask():
                return f"there is nobody to ask at {action.url} in a simulation"
        return ""

    def _make(self, document: Json) -> str:
        kind = _TYPES.get((document["apiVersion"], document["kind"]))
        metadata = document["metadata"]
        key = "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        if kind is None:
            self.beside[document["kind"], key] = document
            return ""
        standing = self._server.find(kind, key)
        if standing is not None:
            owners = {each["uid"] for each in metadata.get("ownerReferences") or ()}
            is_same = not owners or any(each.uid in owners for each in standing.metadata.owner_references)
            return "" if is_same and standing.metadata.deletion_timestamp is None else f"{kind.kind} {key} exists"
        made = decode_as(document, kind)
        self._made[f"{kind.kind}/{key}"] += 1
        number = self._made[f"{kind.kind}/{key}"]
        uid = made.metadata.uid or (f"{kind.kind.lower()}/{key}#{number}" if number > 1 else "")
        meta = replace(made.metadata, uid=uid, creation_timestamp=stamp(self._server.now()))
        self._server.add([replace(made, metadata=meta)])
        return ""

    def _delete(self, target: Target, *, mark: bool) -> None:
        self.beside.pop((target.kind, target.key), None)
        thing = self._find(target)
        if thing is None:
            return
        if mark:
            self._change(target, {"metadata": {"annotations": {OUT_OF_SYNC: "true"}}})
            thing = self._find(target)
        if thing is not None and thing.metadata.deletion_timestamp is None:
            self._server.remove(thing)

    def _change(self, target: Target, changes: Json, *, whole: bool = False) -> None:
        """Merge changes into an object, or put whole parts of it in the place of those that stand."""
        thing = self._find(target)
        if thing is not None:
            document = encode(thing)
            changed = {**document, **changes} if whole else merged(document, changes)
            self._server.replace_object(decode_as(changed, type(thing)))

    def _find(self, target: Target) -> KubeObject | None:
        kind = _TYPES.get((target.api_version, target.kind))
        thing = None if kind is None else self._server.find(kind, target.key)
        return thing if thing is not None and target.uid in ("", thing.metadata.uid) else None
