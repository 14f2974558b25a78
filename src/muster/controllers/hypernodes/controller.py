"""Keeps HyperNodes as their sources want them, and asks those sources that do not tell by themselves."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Final

from muster.api import HyperNode, KubeObject, Node, UserError
from muster.controllers.contract import (
    Action,
    Ask,
    Controller,
    Create,
    EventKind,
    Keeper,
    Plan,
    Step,
    Tell,
    target_of,
)
from muster.controllers.hypernodes.discovery import LABEL, ConfigMap, Source, sources_of
from muster.controllers.hypernodes.labels import from_labels
from muster.controllers.hypernodes.switches import from_answer
from muster.controllers.hypernodes.wanted import SOURCE, WantedHyperNode, steps_to

log = logging.getLogger("muster.controllers")

_NOT_READ: Final = "DiscoveryNotRead"


class HyperNodeController(Keeper):
    """The HyperNodes of a cluster. `config`: namespace/name of the ConfigMap that says where to look."""

    name = "hypernodes"

    def __init__(self, config: str) -> None:
        super().__init__()
        self._config_key = config
        self._config: ConfigMap | None = None
        self._sources: dict[str, Source] = {}
        self._nodes: dict[str, Node] = {}
        self._hyper_nodes: dict[str, HyperNode] = {}
        #: What sources answered last, and when.
        self._answers: dict[str, tuple[list[WantedHyperNode], float]] = {}
        #: What is to be told of a configuration that cannot be read.
        self._fault = ""

    # -- news ----------------------------------------------------------------------------------------------

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        del now
        is_gone = kind == "DELETED"
        if isinstance(thing, Node):
            self._take_node(thing, is_gone=is_gone)
        elif isinstance(thing, HyperNode):
            self.keep(self._hyper_nodes, thing, is_gone=is_gone)
            self.agenda.add(thing.metadata.labels.get(SOURCE, ""))
        elif isinstance(thing, ConfigMap) and thing.key == self._config_key:
            self._take_config(None if is_gone else thing)

    def _take_node(self, node: Node, *, is_gone: bool) -> None:
        known = self._nodes.get(node.name)
        self.keep(self._nodes, node, is_gone=is_gone)
        if is_gone or known is None or known.metadata.labels != node.metadata.labels:
            self.agenda.add(LABEL)

    def _take_config(self, config: ConfigMap | None) -> None:
        """Take in where to look; what cannot be read leaves everything as it was."""
        try:
            sources = {} if config is None else {source.name: source for source in sources_of(config)}
        except UserError as fault:
            assert config is not None
            self._config, self._fault = config, f"{fault.field}: {fault.text}"
            self.agenda.add(_NOT_READ)
            return
        for name in self._sources.keys() | sources.keys():
            if self._sources.get(name) != sources.get(name):
                self._answers.pop(name, None)
                self.agenda.remind(name, None)
                self.agenda.add(name)
        self._sources, self._fault = sources, ""

    def answered(self, ask: Ask, answer: bytes, now: float) -> str:
        try:
            wanted = from_answer(ask.source, answer)
        except UserError as fault:
            return f"{ask.url}: {fault.text}"
        self._answers[ask.source] = wanted, now
        self.agenda.add(ask.source)
        return ""

    def follows(self) -> tuple[type[KubeObject], ...]:
        """The kinds that sources need to be known; nodes come often, and are left out where nobody asks for them."""
        if not self._sources:
            return ()
        return (HyperNode, Node) if LABEL in self._sources else (HyperNode,)

    # -- plans ---------------------------------------------------------------------------------------------

    def steps(self, now: float) -> Iterator[Step]:
        for name in self.agenda.ready(now):
            if name == _NOT_READ and self._fault and self._config is not None:
                told = Tell(target_of(self._config), _NOT_READ, self._fault, is_warning=True)
                yield Step(self.name, name, Plan((told,)))
                continue
            source = self._sources.get(name)
            if source is None:
                self.agenda.settle(name, now)
                continue
            plan = self._plan(source, now)
            self.agenda.remind(name, plan.due)
            yield Step(self.name, name, plan)

    def _plan(self, source: Source, now: float) -> Plan:
        standing = {
            name: known for name, known in self._hyper_nodes.items() if known.metadata.labels.get(SOURCE) == source.name
        }
        if source.question is None:
            if not self._nodes:
                return Plan()  # a cluster without nodes is one that nobody has read
            wanted = from_labels(self._nodes.values(), source.networks, standing.values())
            return Plan(tuple(self._leave_others(steps_to(wanted, standing))))
        answer = self._answers.get(source.name)
        if answer is None or answer[1] + source.interval_s <= now:
            return Plan((source.question,))
        wanted, moment = answer
        return Plan(tuple(self._leave_others(steps_to(wanted, standing))), moment + source.interval_s)

    def _leave_others(self, actions: list[Action]) -> Iterator[Action]:
        """All but those that would make a HyperNode whose name another has."""
        for action in actions:
            other = self._hyper_nodes.get(action.document["metadata"]["name"]) if isinstance(action, Create) else None
            if other is None:
                yield action
            else:
                log.warning("event=hypernode-exists name=%s source=%s", other.name, other.metadata.labels.get(SOURCE))


_check: type[Controller] = HyperNodeController  # the contract
