"""Gives every pod that has no PodGroup one, by what owns it.

Pods with the same owner are looked at together. Owners are asked for when a pod needs them, from the one that made it
up to the last; one that is not there or may not be read counts as far as the reference to it tells, and that is noted.
All that is decided can be read off pods and PodGroups, so a controller that starts anew makes nothing twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from typing import Final

from muster.api import (
    KaiPodGroup,
    KaiQueue,
    KubeObject,
    Pod,
    PodGroup,
    PriorityClass,
    Queue,
    Topology,
    encode,
)
from muster.api.kinds import decode_as
from muster.api.names import DISRUPTION_MODE, GROUP_NAME, WHOLE_GROUP
from muster.api.objects.pod import group_of
from muster.api.objects.workloads import ForeignWorkload
from muster.controllers.contract import (
    Action,
    Controller,
    Create,
    Delete,
    EventKind,
    Fetch,
    Json,
    Keeper,
    Patch,
    Plan,
    Step,
    Target,
    Tell,
    target_of,
)
from muster.controllers.grouping.families import (
    FAMILIES,
    Family,
    Known,
    Member,
    Wanted,
    family_of,
    owner_of_itself,
    wanted,
)
from muster.controllers.grouping.native import (
    Native,
    gang_of_native,
    goes_whole,
    made_topology,
    native_of,
    native_owner,
    told,
    topology_for,
    topology_key,
)
from muster.controllers.grouping.owners import LackingError, Owners
from muster.controllers.grouping.rules import Document, Owner, gang_of
from muster.controllers.grouping.table import Fields, Rule, Table, at, own_table, text_at
from muster.controllers.grouping.units import (
    NATIVE,
    is_ungrouped,
    is_waiting,
    native_unit,
    one_of_each_group,
    owned_unit,
    scaled_owner,
    unit_of,
)

#: Fields of a PodGroup that follow its owner; the others are its users'.
_FOLLOWING: Final = ("minMember", "minTaskMember", "subGroups", "minResources")
#: Seconds until somebody looks again for a gang that pods name and that is not there.
_LOOK_AGAIN_SECONDS: Final = 3.0
#: The longest until somebody looks again for what is seldom awaited.
_SELDOM_SECONDS: Final = 60.0
#: How a gang of Kubernetes is read.
_NATIVE_RULE: Final = Rule(kind="PodGroup.scheduling.k8s.io", priority_class=["spec.priorityClassName"])


class GroupingController(Keeper):
    """Makes PodGroups.

    `scheduler_names`: whose pods; None: all. `lone`: also those of pods that nobody owns. `families`: of whose
    PodGroups there can be any; where there are none, nothing is done. `asks_again`: whether owners that come later are
    no news, so that somebody has to look for them.
    """

    name = "grouping"

    def __init__(
        self,
        table: Table | None = None,
        scheduler_names: Collection[str] | None = None,
        *,
        lone: bool = True,
        families: Callable[[], Collection[Family]] = lambda: FAMILIES,
        asks_again: bool = True,
    ) -> None:
        super().__init__()
        self._families = families
        self._table = table or own_table()
        self._names = None if scheduler_names is None else frozenset(scheduler_names)
        self._lone = lone
        self._asks_again = asks_again
        #: Pods by what they are looked at together with, and by name.
        self._units: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, PodGroup | KaiPodGroup] = {}
        self._owners = Owners()
        self._shelves: dict[type[KubeObject], dict[str, KubeObject]] = {Queue: {}, KaiQueue: {}, PriorityClass: {}}
        self._topologies: dict[str, Topology] = {}
        #: PodGroups that were made for owners that may come to want no pods, by unit.
        self._scaled: dict[str, PodGroup] = {}
        #: Units of which it was told that an owner cannot be read.
        self._told: set[str] = set()

    # -- news ----------------------------------------------------------------------------------------------

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        is_gone = kind == "DELETED"
        if isinstance(thing, Pod):
            if kind != "UNREADABLE":
                self._take_pod(thing, is_gone=is_gone)
        elif isinstance(thing, ForeignWorkload):
            for unit in self._owners.follow(thing, is_gone=is_gone):
                if unit in self._units or unit in self._scaled:
                    self.agenda.add(unit)
        elif isinstance(thing, PodGroup | KaiPodGroup):
            self.keep(self._groups, thing, is_gone=is_gone)
            if native_owner(thing) is not None:
                self._take_native(native_unit(thing.namespace, thing.name), is_gone=is_gone)
            elif isinstance(thing, PodGroup) and (owner := scaled_owner(thing)) is not None:
                self._take_scaled(owned_unit(thing.namespace, owner), thing, is_gone=is_gone)
        elif isinstance(thing, Topology):
            self.keep(self._topologies, thing, is_gone=is_gone)
        elif type(thing) in self._shelves:
            self.keep(self._shelves[type(thing)], thing, is_gone=is_gone)
        del now

    def _take_native(self, unit: str, *, is_gone: bool) -> None:
        """The group in the place of a gang of Kubernetes has changed, or is gone."""
        if not is_gone:
            self.agenda.add(unit)
        elif unit not in self._units:
            self._forget(unit)

    def _take_scaled(self, unit: str, group: PodGroup, *, is_gone: bool) -> None:
        """A group of an owner that may want no pods has changed, or is gone, perhaps just before pods came again."""
        if not is_gone:
            self._scaled[unit] = group
            self._look_for_end(unit)
        else:
            self._scaled.pop(unit, None)
            self.agenda.remind(unit, None)
            if any(map(is_waiting, self._units.get(unit, {}).values())):
                self.agenda.add(unit)

    def _look_for_end(self, unit: str) -> None:
        """Look at a unit without pods; those with a node are not followed, but its group's status tells of them."""
        group = self._scaled.get(unit)
        if group is not None and unit not in self._units and not group.status.running:
            self.agenda.add(unit)

    def _take_pod(self, pod: Pod, *, is_gone: bool) -> None:
        unit = unit_of(pod)
        if not self._is_ours(pod):
            return
        pods = self._units.setdefault(unit, {})
        if is_gone:
            pods.pop(pod.name, None)
            if not pods:
                self._forget(unit)
                self._look_for_end(unit)
            return
        pods[pod.name] = pod
        if is_ungrouped(pod):
            self.agenda.add(unit)

    def _forget(self, unit: str) -> None:
        """The last pod is gone, and with it what was read for it alone."""
        self._units.pop(unit, None)
        self._told.discard(unit)
        self.agenda.drop(unit)
        self._owners.forget(unit)

    def _is_ours(self, pod: Pod) -> bool:
        if self._names is not None and pod.spec.scheduler_name not in self._names:
            return False
        return self._lone or bool(pod.metadata.owner_references) or native_of(pod) is not None

    def _answer(self, unit: str, target: Target, now: float, document: Json | None, why: str) -> None:
        if unit in self._units or unit in self._scaled or unit.endswith(NATIVE):
            self._owners.answer(target, document, why, now)
            self.agenda.add(unit)

    def settle(self, key: str, now: float, fault: str = "") -> None:
        if fault:  # what was asked for may not have happened
            self._owners.doubt(key)
        super().settle(key, now, fault)

    # -- plans ---------------------------------------------------------------------------------------------

    def steps(self, now: float) -> Iterator[Step]:
        for unit in self.agenda.ready(now):
            yield Step(self.name, unit, self._plan(unit, now))

    def _plan(self, unit: str, now: float) -> Plan:
        pods = self._units.get(unit, {})
        native = next((found for pod in pods.values() if (found := native_of(pod)) is not None), None)
        try:
            if native is not None:
                return Plan(tuple(self._native_actions(unit, native, pods, now)))
            if (group := self._groups.get(unit.removesuffix(NATIVE))) is not None and unit.endswith(NATIVE):
                return Plan(tuple(self._told_native(unit, group, now)))
            if not pods and unit in self._scaled:
                return Plan(tuple(self._left_over(unit, now)))
            return Plan(tuple(self._actions(unit, pods, now)))
        except LackingError as lacking:
            target = lacking.target
            return Plan((Fetch(target, lambda document, why: self._answer(unit, target, now, document, why)),))

    def _actions(self, unit: str, pods: dict[str, Pod], now: float) -> list[Action]:
        # Raises LackingError before anything is asked for.
        if not self._families():
            return []
        looked_at = [*filter(is_ungrouped, pods.values()), *one_of_each_group(pods.values())]
        groups: dict[str, Wanted] = {}
        marks: list[Action] = []
        for pod in looked_at:
            found = self._wanted(unit, pod, pods, now)
            if group_of(pod) not in (None, found.name):
                continue  # somebody else's
            groups[found.key] = found
            if is_ungrouped(pod):
                marks.append(Patch(target_of(pod), {"metadata": found.marks(pod)}))
        made = [action for group in groups.values() if (action := self._group_action(group)) is not None]
        return [*made, *marks, *self._told_of(unit, pods)]

    def _left_over(self, unit: str, now: float) -> list[Action]:
        """Delete the group of an owner that has no pods and wants none. Raises LackingError."""
        group = self._scaled[unit]
        if (owner := scaled_owner(group)) is None or group.status.running:
            return []
        target = Target(owner.api_version, owner.kind, f"{group.namespace}/{owner.name}")
        document = self._owners.document(unit, target, now) or {}
        self._owners.forget(unit)
        if at(document, "metadata.uid") != owner.uid:
            return []
        if at(document, "spec.replicas") == 0:
            return [Delete(target_of(group))]
        if self._asks_again:  # pods may come and go before the status tells of one: look when the group is twice as old
            age = now - made.timestamp() if (made := group.metadata.creation_timestamp) else 0.0
            self.agenda.remind(unit, now + min(max(age, _LOOK_AGAIN_SECONDS), _SELDOM_SECONDS))
        return []

    def _group_action(self, group: Wanted) -> Action | None:
        standing = self._groups.get(group.key)
        if standing is None:
            return Create(group.document)
        before, after = (_following(thing) for thing in (standing, decode_as(group.document, type(standing))))
        changed = {name: after.get(name) for name in _FOLLOWING if before.get(name) != after.get(name)}
        uid = group.document["metadata"]["ownerReferences"][0]["uid"]
        is_ours = any(each.uid == uid for each in standing.metadata.owner_references)
        return Patch(target_of(standing), {"spec": changed}) if changed and is_ours else None

    def _wanted(self, unit: str, pod: Pod, pods: dict[str, Pod], now: float) -> Wanted:
        owners = self._owners.of_pod(unit, pod, now)
        family = family_of(pod, owners, self._known(), self._families())
        owners, rule = self._counting(owners, pod)
        top = owners[-1]
        fields = top.document if rule.fields is None else self._fields(unit, rule.fields, top, pod, now)
        gang = gang_of(rule, top, fields, pod, pods.values())
        return wanted(family, Member(pod, rule, owners, gang, fields), self._known())

    def _known(self) -> Known:
        queues, kai_queues, classes = (self._shelves[kind] for kind in (Queue, KaiQueue, PriorityClass))
        return Known(queues, kai_queues, classes)

    # -- gangs of Kubernetes ------------------------------------------------------------------------------

    def _native_actions(self, unit: str, native: Native, pods: dict[str, Pod], now: float) -> list[Action]:
        """Name the group in the gang's place on its pods, make it when the gang is there, and tell how it is."""
        owner = self._native_owner(unit, native, next(iter(pods.values())).namespace, now)
        marks = [
            Patch(target_of(pod), {"metadata": {"annotations": {GROUP_NAME: native.group_name}}})
            for pod in pods.values()
            if is_ungrouped(pod)
        ]
        if owner is None:
            if self._asks_again:
                self.agenda.remind(unit, now + _LOOK_AGAIN_SECONDS)
            return list(marks)
        # Pods that name it wait for it; were it refused first, they would start one by one.
        return [*marks, *self._native_group(native, owner, pods, now)]

    def _native_owner(self, unit: str, native: Native, namespace: str, now: float) -> Owner | None:
        for version in native.versions:
            document = self._owners.document(unit, Target(version, native.kind, f"{namespace}/{native.name}"), now)
            if document is not None:
                uid = str(document["metadata"].get("uid") or "")
                return Owner(version, native.kind, native.name, uid, document)
        return None

    def _native_group(self, native: Native, owner: Owner, pods: dict[str, Pod], now: float) -> Iterator[Action]:
        pod, key = next(iter(pods.values())), topology_key(owner.document)
        topology = topology_for(key, self._topologies.values())
        made = made_topology(key) if key and not topology else None
        gang = gang_of_native(native, owner, topology if made is None else made["metadata"]["name"])
        if gang is None or (key and "kai" not in self._families()):
            if (unit := unit_of(pod)) not in self._told:
                self._told.add(unit)
                yield Tell(target_of(pod), "GangNotUnderstood", _why_not(native, key), is_warning=True)
            if self._asks_again:  # a part or a definition that comes later is no news
                self.agenda.remind(unit, now + _SELDOM_SECONDS)
            return
        if made is not None:
            yield Create(made)
        family = "kai" if key else family_of(pod, [owner], self._known(), self._families())
        member = Member(pod, _NATIVE_RULE, [owner], gang, owner.document)
        group = wanted(family, member, self._known())
        group.document["metadata"]["name"] = native.group_name
        if goes_whole(native, owner):
            group.document["metadata"]["annotations"][DISRUPTION_MODE] = WHOLE_GROUP
        if (action := self._group_action(group)) is not None:
            yield action
        if (standing := self._groups.get(group.key)) is not None:
            yield from self._told_native(unit_of(pod), standing, now)

    def _told_native(self, unit: str, group: PodGroup | KaiPodGroup, now: float) -> Iterator[Action]:
        """Say on a gang of Kubernetes how the group in its place is. Raises LackingError."""
        reference = native_owner(group)
        if reference is None:
            return
        target = Target(reference.api_version, reference.kind, f"{group.namespace}/{reference.name}")
        document = self._owners.document(unit, target, now)
        if document is None:
            return
        owner = Owner(reference.api_version, reference.kind, reference.name, reference.uid, document)
        if (status := told(group, owner, now)) is None:
            return
        yield Patch(replace(target, uid=reference.uid), {"status": status}, of_status=True)
        said = {**document, "status": {**(document.get("status") or {}), **status}}
        self._owners.write(target, said)

    # -- owners --------------------------------------------------------------------------------------------

    def _counting(self, owners: list[Owner], pod: Pod) -> tuple[list[Owner], Rule]:
        """The owners without those that do not count, and the row of the last."""
        owners = owners or [owner_of_itself(pod)]
        while True:
            top = owners[-1]
            rule = self._table.rule_of(top.api_version, top.kind)
            if not rule.skip:
                return owners, rule
            below = owners[:-1] or [owner_of_itself(pod)]
            owners = [*below[:-1], below[-1].under(top)]

    def _fields(self, unit: str, fields: Fields, owner: Owner, pod: Pod, now: float) -> Document:
        """The object that has the fields in the owner's place, or the owner. Raises LackingError."""
        name = text_at(owner.document, fields.names) or pod.metadata.labels.get(fields.label, "")
        if name:
            kind, _, rest = fields.kind.partition(".")
            target = Target(rest or owner.api_version, kind, f"{pod.namespace}/{name}")
            if (document := self._owners.document(unit, target, now)) is not None:
                return document
        inline = at(owner.document, fields.inline) if fields.inline else None
        return {**owner.document, "spec": inline} if isinstance(inline, dict) else owner.document

    def _told_of(self, unit: str, pods: dict[str, Pod]) -> list[Action]:
        """Say once of whom nothing could be read."""
        lacking = self._owners.unread(unit)
        if not lacking or unit in self._told or not pods:
            return []
        self._told.add(unit)
        text = f"grouped by what the pod says of its owner: {'; '.join(lacking)}"
        return [Tell(target_of(next(iter(pods.values()))), "OwnerNotRead", text, is_warning=True)]


def _why_not(native: Native, key: str) -> str:
    if key:
        return f"the topology key {key} needs PodGroups and Topologies of KAI, which the server does not have"
    return f"{native.kind} {native.name} has no part {native.part}"


def _following(group: KubeObject) -> Json:
    spec = encode(group).get("spec")
    return spec if isinstance(spec, dict) else {}


_check: type[Controller] = GroupingController  # the contract
