"""Argo's Workflows: steps and graphs of templates, each of which is a pod, another object, or more of both.

What a step makes is named after the step, so its state is that of the pod or object with the name, and nothing has to
be remembered. Pods of a simulation have no output: a step that is made only if an output says so is passed over, and so
is one for each item of a list that another step would write. Nobody is asked to go on after a pause.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from msgspec.structs import replace as replace_struct

from muster.api import WORKLOADS, UserError
from muster.api.documents import read_yaml
from muster.controllers.contract import Json
from muster.controllers.played.conditions import holds, is_met
from muster.controllers.played.contract import Scene, Wish, child_of, digest, is_active, mapping, pod_of
from muster.controllers.played.plain import by_the_clock

_RUNNING, _DONE, _FAILED, _SKIPPED = "Running", "Succeeded", "Failed", "Skipped"
_GROUP: Final = "workflows.argoproj.io"
_VARIABLE: Final = re.compile(r"\{\{\s*=?\s*([\w.\-]+)\s*\}\}")
#: Templates inside one another; more are a circle.
_DEPTH: Final = 20
_MAX_NAME: Final = 63
#: What pods take from the Workflow, or from their template before it.
_OF_PODS: Final = ("nodeSelector", "affinity", "tolerations", "schedulerName", "hostNetwork", "volumes")
Variables = Mapping[str, object]


def workflow(scene: Scene) -> Wish:
    """The pods and objects of all steps whose turn it is."""
    spec = _whole_spec(scene)
    active = sorted(name for name, pod in scene.pods.items() if is_active(pod))
    if spec.get("suspend") is True or spec.get("shutdown"):
        return Wish(leaving=active)
    play = _Play(scene, spec)
    state = play.template(play.own("entrypoint"), play.name, play.given(spec.get("arguments"), {}), 0)
    if state != _RUNNING and spec.get("onExit"):
        ended = {**play.variables, "workflow.status": state}
        if play.template(play.own("onExit"), f"{play.name}.onExit", ended, 0) == _RUNNING:
            state = _RUNNING
    status: Json = {"phase": state, "progress": f"{play.n_done}/{play.n_steps}"}
    if state != _RUNNING:
        status["conditions"] = [{"type": "Completed", "status": "True"}]
    return Wish(play.wanted(), status=status)


def cron_workflow(scene: Scene) -> Wish:
    """A Workflow for each time that has come."""
    spec, listed = scene.spec, scene.spec.get("schedules")
    first = listed[0] if isinstance(listed, list) and listed else spec.get("schedule")
    timed = replace_struct(scene.thing, spec={**spec, "schedule": first, "timeZone": spec.get("timezone")})
    template = {"metadata": spec.get("workflowMetadata"), "spec": spec.get("workflowSpec")}
    return by_the_clock(replace(scene, thing=timed), scene.thing.api_version, "Workflow", template)


def _whole_spec(scene: Scene) -> Json:
    """The spec, over that of the template that it names. Raises UserError when there is none of that name."""
    reference = mapping(scene.spec.get("workflowTemplateRef"))
    if not reference:
        return scene.spec
    named = _named_spec(scene, reference, "spec.workflowTemplateRef.name")
    arguments = {**mapping(named.get("arguments")), **mapping(scene.spec.get("arguments"))}
    return {**named, **scene.spec, "arguments": arguments}


def _named_spec(scene: Scene, reference: Json, place: str) -> Json:
    """The spec of the WorkflowTemplate, or with clusterScope the ClusterWorkflowTemplate, that a reference names."""
    name, is_of_cluster = str(reference.get("name") or ""), reference.get("clusterScope") is True
    kind = "ClusterWorkflowTemplate" if is_of_cluster else "WorkflowTemplate"
    found = scene.find(kind, name if is_of_cluster else f"{scene.thing.namespace}/{name}")
    if found is None:
        raise UserError(f'expected a {kind} that is there, got "{name}"', field=place)
    return found.spec


@dataclass(frozen=True, slots=True)
class _Template:
    """A template, and those beside it, which its steps may name."""

    body: Json
    beside: Sequence[Json]


def _named(name: str, beside: Sequence[Json], place: str = "spec.templates") -> _Template:
    """The one of that name. Raises UserError."""
    body = next((each for each in beside if each.get("name") == name), None)
    if body is None:
        raise UserError(f'expected the name of a template, got "{name}"', field=place)
    return _Template(body, beside)


@dataclass(slots=True)
class _Play:
    """One look at a Workflow: what is to be there, and how far it is."""

    scene: Scene
    spec: Json
    variables: dict[str, object] = field(default_factory=dict)
    objects: list[Json] = field(default_factory=list)
    n_steps: int = 0
    n_done: int = 0

    def __post_init__(self) -> None:
        thing = self.scene.thing
        self.variables |= {"workflow.name": thing.name, "workflow.namespace": thing.namespace}
        self.variables |= {"workflow.uid": thing.metadata.uid}
        for given in _entries(mapping(self.spec.get("arguments")).get("parameters")):
            self.variables[f"workflow.parameters.{given.get('name')}"] = given.get("value", given.get("default", ""))

    @property
    def name(self) -> str:
        return self.scene.thing.name

    def wanted(self) -> list[Json]:
        """What is to be there; of what is new as much as may run at the same time."""
        most = self.spec.get("parallelism")
        if not isinstance(most, int):
            return self.objects
        n_active = sum(map(is_active, self.scene.pods.values()))
        new = [
            each for each in self.objects if each["kind"] == "Pod" and each["metadata"]["name"] not in self.scene.pods
        ]
        held = {each["metadata"]["name"] for each in new[max(0, most - n_active) :]}
        return [each for each in self.objects if each["kind"] != "Pod" or each["metadata"]["name"] not in held]

    def given(self, arguments: object, variables: Variables) -> dict[str, object]:
        """The variables of a template that is called with arguments."""
        found = dict(self.variables)
        for each in _entries(mapping(arguments).get("parameters")):
            found[f"inputs.parameters.{each.get('name')}"] = _filled(each.get("value", ""), variables)
        return found

    # -- templates -----------------------------------------------------------------------------------------

    def own(self, field: str) -> _Template:
        """The template of the Workflow itself that a field of its spec names. Raises UserError."""
        return _named(str(self.spec.get(field) or ""), _entries(self.spec.get("templates")), f"spec.{field}")

    def template(self, template: _Template, path: str, variables: Variables, depth: int) -> str:
        """Play a template; returns how far it is. Raises UserError for one inside itself."""
        found = template.body
        if depth > _DEPTH:
            what = f'template "{found.get("name")}" is inside itself, or deeper than {_DEPTH} others'
            raise UserError(what, field="spec.templates")
        inputs = dict(variables)
        for each in _entries(mapping(found.get("inputs")).get("parameters")):
            inputs.setdefault(f"inputs.parameters.{each.get('name')}", each.get("value", each.get("default", "")))
        if "steps" in found:
            return self._steps(template, path, inputs, depth)
        if "dag" in found:
            return self._graph(template, path, inputs, depth)
        self.n_steps += 1
        state = self._leaf(_filled_in(found, inputs), path)
        self.n_done += state in (_DONE, _SKIPPED)
        return state

    def _leaf(self, template: Json, path: str) -> str:
        if "resource" in template:
            return self._resource(mapping(template["resource"]), path)
        containers = template.get("container") or template.get("script")
        if isinstance(containers, dict):
            return self._pod(template, [{"name": "main", **containers}], path)
        if isinstance(template.get("containerSet"), dict):
            return self._pod(template, _entries(template["containerSet"].get("containers")), path)
        return _DONE  # a pause, a request, data: nothing that takes a node

    def _pod(self, template: Json, containers: Sequence[Json], path: str) -> str:
        limit = mapping(template.get("retryStrategy")).get("limit", 0)
        attempts = int(limit) + 1 if str(limit).isdecimal() else 1
        for attempt in range(attempts):
            name = self._name_of(template, f"{path}({attempt})" if attempt else path)
            pod = self.scene.pods.get(name)
            if pod is None or pod.status.phase != "Failed":
                self.objects.append(self._pod_document(name, template, containers, path))
                return _DONE if pod is not None and pod.status.phase == "Succeeded" else _RUNNING
        return _FAILED

    def _pod_document(self, name: str, template: Json, containers: Sequence[Json], path: str) -> Json:
        spec: Json = {key: value for key in _OF_PODS if (value := template.get(key) or self.spec.get(key))}
        # The claim that another step would name is one that nobody knows here.
        spec["volumes"] = [each for each in _entries(spec.get("volumes")) if "{{" not in _claim(each)]
        sidecars = _entries(template.get("sidecars"))
        spec |= {"containers": [_plain(each) for each in (*containers, *sidecars)], "restartPolicy": "Never"}
        if init := _entries(template.get("initContainers")):
            spec["initContainers"] = [_plain(each) for each in init]
        priority = template.get("priorityClassName") or self.spec.get("podPriorityClassName")
        if priority:
            spec["priorityClassName"] = priority
        marks = [mapping(self.spec.get("podMetadata")), mapping(template.get("metadata"))]
        metadata = {
            part: {key: value for each in marks for key, value in mapping(each.get(part)).items()}
            for part in ("labels", "annotations")
        }
        labels = {f"{_GROUP}/workflow": self.name}
        return pod_of(
            self.scene.thing, name, {"metadata": metadata, "spec": spec}, labels, {f"{_GROUP}/node-name": path}
        )

    def _name_of(self, template: Json, path: str) -> str:
        """A name that is the same each time, as long as names of pods may be."""
        label = re.sub(r"[^a-z0-9-]", "-", str(template.get("name") or "").lower())
        return f"{f'{self.name}-{label}'[: _MAX_NAME - 9].rstrip('-')}-{digest(path)}"

    def _resource(self, resource: Json, path: str) -> str:
        if resource.get("action") not in ("create", "apply"):
            return _DONE
        states = [
            self._object(document.content, resource, f"{path}/{number}")
            for number, document in enumerate(read_yaml(str(resource.get("manifest") or ""), path))
            if isinstance(document.content, dict)
        ]
        return next((word for word in (_FAILED, _RUNNING) if word in states), _DONE)

    def _object(self, document: Json, resource: Json, path: str) -> str:
        metadata, kind = mapping(document.get("metadata")), str(document.get("kind") or "")
        name = str(metadata.get("name") or f"{metadata.get('generateName') or ''}{digest(path, 5)}")
        api_version, standing = str(document.get("apiVersion") or ""), self.scene.child(kind, name)
        spec = mapping(document.get("spec")) if standing is None else standing.spec
        made = child_of(self.scene.thing, api_version, kind, name, spec, metadata)
        self.objects.append(made)
        if (api_version, kind) not in WORKLOADS:
            return _DONE  # a claim, a setting: nobody here says how it is
        seen: Json = {} if standing is None else {"metadata": made["metadata"], "spec": spec, "status": standing.status}
        if holds(str(resource.get("failureCondition") or ""), seen):
            return _FAILED
        wanted = str(resource.get("successCondition") or "")
        return _DONE if standing is not None and (not wanted or holds(wanted, seen)) else _RUNNING

    # -- steps and graphs ------------------------------------------------------------------------------------

    def _steps(self, template: _Template, path: str, variables: Variables, depth: int) -> str:
        """One group after the other; the steps of a group side by side."""
        groups = template.body["steps"]
        for number, group in enumerate(groups if isinstance(groups, list) else ()):
            at_once = _entries(group if isinstance(group, list) else mapping(group).get("steps"))
            calls = [(self._called(step, template), step) for step in at_once]
            states = [self._call(called, step, f"{path}[{number}]", variables, depth) for called, step in calls]
            if _RUNNING in states or _FAILED in states:
                return _RUNNING if _RUNNING in states else _FAILED
        return _DONE

    def _graph(self, template: _Template, path: str, variables: Variables, depth: int) -> str:
        tasks = {str(task.get("name")): task for task in _entries(mapping(template.body["dag"]).get("tasks"))}
        states: dict[str, str] = {}
        waiting = list(tasks)
        while ready := [name for name in waiting if _may_begin(tasks[name], states)]:
            for name in ready:
                waiting.remove(name)
                if not is_met(_needs(tasks[name]), states):
                    states[name] = "Omitted"
                    continue
                states[name] = self._call(self._called(tasks[name], template), tasks[name], path, variables, depth)
        if _RUNNING in states.values():
            return _RUNNING
        if waiting:
            raise UserError(
                f"expected tasks that wait for others of the graph, and not in a circle, got {', '.join(waiting)}",
                field="spec.templates",
            )
        return _FAILED if _FAILED in states.values() else _DONE

    def _called(self, step: Json, caller: _Template) -> _Template:
        """The template that a step holds, or names: of another object, or of the one that the step itself is of."""
        inline, reference = step.get("inline"), mapping(step.get("templateRef"))
        if isinstance(inline, dict):
            return _Template(inline, caller.beside)
        if not reference:
            return _named(str(step.get("template") or ""), caller.beside)
        place = f"the step {step.get('name')}: templateRef"
        spec = _named_spec(self.scene, reference, f"{place}.name")
        return _named(str(reference.get("template") or ""), _entries(spec.get("templates")), f"{place}.template")

    def _call(self, called: _Template, step: Json, path: str, variables: Variables, depth: int) -> str:
        """Play the template that a step calls, once, or once for each of its items."""
        states = []
        for number, item in enumerate(_items(_filled(step.get("withItems"), variables), step, variables)):
            name = f"{path}.{step.get('name')}" + ("" if item is None else f"({number})")
            known = {**variables, **_item_variables(item)}
            if not _is_wanted(_filled(step.get("when"), known)):
                states.append(_SKIPPED)
                continue
            states.append(self.template(called, name, self.given(step.get("arguments"), known), depth + 1))
        state = next((word for word in (_RUNNING, _FAILED) if word in states), _DONE)
        goes_on = mapping(step.get("continueOn"))
        return _DONE if state == _FAILED and (goes_on.get("failed") or goes_on.get("error")) else state


# -- fields ----------------------------------------------------------------------------------------------------


def _needs(task: Json) -> str:
    names = task.get("dependencies")
    return " && ".join(map(str, names)) if isinstance(names, list) else str(task.get("depends") or "")


def _may_begin(task: Json, states: Mapping[str, str]) -> bool:
    """Whether all that a task waits for is over."""
    names = re.findall(r"[\w-]+(?:\.\w+)?", _needs(task))
    return all(states.get(name.partition(".")[0], _RUNNING) != _RUNNING for name in names)


def _is_wanted(condition: object) -> bool:
    """Whether a condition without anything unknown in it holds; none at all does."""
    if not condition:
        return True
    text = str(condition)
    sides = re.fullmatch(r"\s*(.+?)\s*(==|!=|=~)\s*(.+?)\s*", text)
    if "{{" in text:
        return False
    if sides is None:
        return text.strip().lower() == "true"
    left, operator, right = (side.strip("\"' ") for side in sides.groups())
    return left == right if operator == "==" else left != right


def _items(items: object, step: Json, variables: Variables) -> Iterator[object]:
    """The items that a step is made for; None: once."""
    sequence = mapping(_filled(step.get("withSequence"), variables))
    if isinstance(items, list):
        yield from items
    elif "{{" in str(sequence):
        return  # numbers that another step would write
    elif sequence:
        yield from map(str, _numbers(sequence))
    elif step.get("withParam") is not None:
        text = str(_filled(step["withParam"], variables))
        yield from [] if "{{" in text else json.loads(text)
    else:
        yield None


def _numbers(sequence: Json) -> range:
    try:
        start = int(sequence.get("start") or 0)
        if sequence.get("count") is not None:
            return range(start, start + int(sequence["count"]))
        return range(start, int(sequence.get("end") or start) + 1)
    except ValueError:
        raise UserError("expected numbers", field="spec.templates.steps.withSequence") from None


def _item_variables(item: object) -> dict[str, object]:
    parts = {f"item.{key}": value for key, value in item.items()} if isinstance(item, dict) else {}
    return {} if item is None else {"item": json.dumps(item) if isinstance(item, dict | list) else item, **parts}


def _filled_in(template: Json, variables: Variables) -> Json:
    filled = _filled(template, variables)
    return filled if isinstance(filled, dict) else template


def _filled(value: object, variables: Variables) -> object:
    """A value with variables filled in; those that nobody knows stay as they are."""
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: str(variables.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [_filled(each, variables) for each in value]
    if isinstance(value, dict):
        return {key: _filled(each, variables) for key, each in value.items()}
    return value


def _claim(volume: Json) -> str:
    """The claim that a volume names, "" for none."""
    return str(mapping(volume.get("persistentVolumeClaim")).get("claimName") or "")


def _plain(container: Json) -> Json:
    """A container as pods have it."""
    return {
        key: value for key, value in container.items() if key not in ("source", "dependencies", "mirrorVolumeMounts")
    }


def _entries(value: object) -> list[Json]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
