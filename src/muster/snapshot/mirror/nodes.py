"""Nodes and HyperNodes as they stand, and the table of nodes made from them.

The table is made anew when a node or HyperNode changes, and only moved to other columns when the resource axis changes;
most cycles copy it. A node that was put aside stays in it, as one that takes no pods.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

import numpy as np

from muster.api import DeviceClass, HyperNode, Node, ResourceSlice
from muster.kernels.planes import ALLOCATABLE, N_PLANES
from muster.snapshot.columns import Amounts, ResourceAxis
from muster.snapshot.devices import NOT_LIMITED, PREFIX, offered
from muster.snapshot.labels import NodeLabels, TaintColumn
from muster.snapshot.tables import NodeTable
from muster.snapshot.topology import TopologyTable, build_topology

T = TypeVar("T")


class NodeBook:
    """Nodes by name, what they offer, and the HyperNodes.

    `objects` are all others that the cluster has, by kind and key: slices and classes of devices are looked up there.
    `allocates_claims`: whether the cluster gives devices to the pods that are bound.
    """

    def __init__(self, objects: Mapping[str, Mapping[str, object]], *, allocates_claims: bool) -> None:
        self._objects = objects
        self._allocates_claims = allocates_claims
        self._nodes: dict[str, Node] = {}
        #: What nodes offer, in base units; a node without an entry was put aside.
        self._offers: dict[str, Mapping[str, int]] = {}
        self.hyper_nodes: dict[str, HyperNode] = {}
        self._axis = ResourceAxis()
        #: The tables without any task, on that axis; None: they have to be made anew.
        self._tables: tuple[NodeTable, TopologyTable] | None = None

    def set(self, node: Node, offers: Mapping[str, int]) -> bool:
        """Take in a new or changed node; returns whether other classes than before may go there."""
        return self._set(node.name, node, offers)

    def put_aside(self, node: Node) -> bool:
        """Keep a node that cannot be used, as it was if it is known."""
        return self._set(node.name, self._nodes.get(node.name, node), None)

    def drop(self, name: str) -> bool:
        """Forget a node; returns whether it was there, as `set` does."""
        return self._set(name, None, None)

    def _set(self, name: str, node: Node | None, offers: Mapping[str, int] | None) -> bool:
        old, was_offered = self._nodes.pop(name, None), self._offers.pop(name, None)
        if node is not None:
            self._nodes[name] = node
        if offers is not None:
            self._offers[name] = offers
        self._tables = None
        is_same = old is not None and node is not None and _same_placement(old, node)
        return not is_same or (offers is None) != (was_offered is None)

    def set_hyper_node(self, name: str, hyper_node: HyperNode | None) -> bool:
        """Take in a new or changed HyperNode, None for one that is gone; returns whether node rows may move."""
        old = self.hyper_nodes.pop(name, None)
        if hyper_node is not None:
            self.hyper_nodes[name] = hyper_node
        is_same = old is not None and hyper_node is not None and old.spec == hyper_node.spec
        if not is_same:
            self._tables = None
        return not is_same

    def forget_devices(self) -> None:
        """The devices that nodes have may be others now."""
        self._tables = None

    # -- tables out ----------------------------------------------------------------------------------------

    def tables(self, axis: ResourceAxis) -> tuple[NodeTable, TopologyTable]:
        """The nodes without any task, for a picture to own, and the topology."""
        if self._tables is None:
            self._axis = axis
            self._tables = self._lay_out()
        elif axis.names != self._axis.names:
            before, self._axis = self._axis, axis
            self._tables = self._moved(*self._tables, before)
        table, topology = self._tables
        return NodeTable(
            table.names,
            table.index,
            table.objects,
            table.state.copy(),
            table.ready,
            table.labels,
            table.taints,
            table.aside,
        ), topology

    def _lay_out(self) -> tuple[NodeTable, TopologyTable]:
        topology, names = build_topology(self.hyper_nodes, self._nodes)
        objects = [self._nodes[name] for name in names]
        index = {name: row for row, name in enumerate(names)}
        state = np.zeros((N_PLANES, len(names), len(self._axis)), np.int64)
        ready = np.ones(len(names), np.bool_)
        aside = np.zeros(len(names), np.bool_)
        for row, node in enumerate(objects):
            offers = self._offers.get(node.name)
            if offers is None:
                ready[row], aside[row] = False, True
                continue
            state[ALLOCATABLE, row] = self._axis.vector(offers)
            ready[row] = node.is_ready
        self._add_devices(state[ALLOCATABLE], index)
        return NodeTable(
            names, index, objects, state, ready, NodeLabels(objects), TaintColumn(objects), aside
        ), topology

    def _moved(
        self, table: NodeTable, topology: TopologyTable, before: ResourceAxis
    ) -> tuple[NodeTable, TopologyTable]:
        """The tables on a new axis; what nodes offer is only looked up for resources that are new."""
        state = np.zeros((N_PLANES, len(table), len(self._axis)), np.int64)
        for name, column in self._axis.index.items():
            if name in before.index:
                state[:, :, column] = table.state[:, :, before.index[name]]
            elif not name.startswith(PREFIX):
                offers = (self._offers.get(node, {}).get(name, 0) for node in table.names)
                state[ALLOCATABLE, :, column] = np.fromiter(offers, np.int64, len(table))
        self._add_devices(state[ALLOCATABLE], table.index)
        return replace(table, state=state), topology

    def _add_devices(self, allocatable: Amounts, index: dict[str, int]) -> None:
        """Set what nodes offer of every device class that somebody asks for."""
        columns = {name: column for name, column in self._axis.index.items() if name.startswith(PREFIX)}
        slices = self._of_kind(ResourceSlice)
        # A claim that is allocated has its devices already, however many pods share it.
        if not columns or not slices or not self._allocates_claims:
            allocatable[:, list(columns.values())] = NOT_LIMITED
            return
        classes = {known.name: known for known in self._of_kind(DeviceClass)}
        for node, amounts in offered(slices, classes).items():
            for name, amount in amounts.items():
                if node in index and name in columns:
                    allocatable[index[node], columns[name]] = amount

    def _of_kind(self, kind: type[T]) -> list[T]:
        found = self._objects.get(kind.__name__, {})
        return [item for _, item in sorted(found.items()) if isinstance(item, kind)]


def _same_placement(old: Node, new: Node) -> bool:
    """Do two versions of a node admit the same classes? Heartbeats and free resources aside."""
    return (
        old.metadata.labels == new.metadata.labels
        and old.metadata.annotations == new.metadata.annotations
        and old.spec == new.spec
        and old.is_ready == new.is_ready
    )
