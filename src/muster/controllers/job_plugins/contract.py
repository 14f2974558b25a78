"""The contract of a plugin of Jobs, how its arguments are read, and where plugins come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Final, TypeVar

from muster.api import UserError
from muster.api.objects.batch import Job, JobTask
from muster.controllers.contract import Apply, Create, Json, Target, owner_reference
from muster.controllers.job_plugins.keys import key_pair

GROUP: Final = "muster.job_plugins"
#: Reads what the others have put into a pod.
_LAST: Final = "hcclrank"
_Value = TypeVar("_Value", str, int, bool)


class JobPluginError(UserError):
    """A plugin that there is not, or arguments that it cannot use."""


class JobPlugin:
    """A plugin as one Job names it, with its arguments. Override what you care about.

    It is asked again and again, also after a restart of the controller, and has to answer the same each time.
    """

    def __init__(self, arguments: Sequence[str]) -> None:
        self.arguments = arguments
        #: Where a private key and its public one come from; a simulation has none to protect.
        self.make_keys: Callable[[], tuple[str, str]] = key_pair

    def objects(self, job: Job, *, is_new: bool) -> Iterable[Create | Apply]:
        """What stands beside the pods; `is_new`: the Job has not had this plugin's objects yet."""
        del job, is_new
        return ()

    def made(self, job: Job) -> Iterable[Target]:
        """What `objects` may have made; it is deleted when the Job has ended."""
        del job
        return ()

    def shape(self, pod: Json, job: Job, task: JobTask, index: int) -> None:
        """Complete the document of a pod before it is made."""


def flag(arguments: Sequence[str], name: str, default: _Value) -> _Value:
    """The value of an argument, written as --name=value or --name value; one dash will do, and the last one counts.

    Raises JobPluginError.
    """
    found = default
    for place, argument in enumerate(arguments):
        key, given, value = argument.partition("=")
        if not key.startswith("-") or key.lstrip("-") != name:
            continue
        if not given and isinstance(default, bool):
            value = "true"
        elif not given:
            value = "".join(arguments[place + 1 : place + 2])
        found = _read(name, value, default)
    return found


def _read(name: str, value: str, default: _Value) -> _Value:
    if isinstance(default, bool):
        if value.lower() not in ("1", "t", "true", "0", "f", "false"):
            raise JobPluginError(f'--{name}: expected "true" or "false", got "{value}"')
        return type(default)(value.lower() in ("1", "t", "true"))
    if isinstance(default, int):
        if not value.isdecimal():
            raise JobPluginError(f'--{name}: expected a number, got "{value}"')
        return type(default)(int(value))
    return type(default)(value)


@cache
def _registered() -> Mapping[str, Callable[[Sequence[str]], JobPlugin]]:
    """Plugins by name: Muster's own, and those that other packages register."""
    from muster.controllers.job_plugins import basic, frameworks  # noqa: PLC0415  # they build on this module

    found: dict[str, Callable[[Sequence[str]], JobPlugin]] = {}
    for entry in entry_points(group=GROUP):
        found[entry.name] = entry.load()
    return {**found, **basic.PLUGINS, **frameworks.PLUGINS}


def plugin_names() -> tuple[str, ...]:
    """The plugins that there are."""
    return tuple(sorted(_registered()))


def plugins_of(job: Job, make_keys: Callable[[], tuple[str, str]] = key_pair) -> dict[str, JobPlugin]:
    """The plugins that a Job names, in the order in which they are asked. Raises JobPluginError."""
    found = {}
    for name in sorted(job.spec.plugins, key=lambda name: (name == _LAST, name)):
        make = _registered().get(name)
        if make is None:
            known = ", ".join(plugin_names())
            raise JobPluginError(f'expected one of {known}, got "{name}"', field=f"spec.plugins.{name}")
        try:
            found[name] = make(job.spec.plugins[name])
            found[name].make_keys = make_keys
        except JobPluginError as error:
            raise JobPluginError(error.text, field=f"spec.plugins.{name}") from None
    return found


# -- what plugins have in common -------------------------------------------------------------------------------


def task_named(job: Job, name: str) -> JobTask | None:
    """A task by its name."""
    return next((task for task in job.spec.tasks if task.name == name), None)


def host_of(job: Job, task: JobTask, index: int = 0) -> str:
    """The name by which a pod of a task is found, whether or not there is one; the template may give all the same."""
    spec = task.template.get("spec") or {}
    return f"{spec.get('hostname') or f'{job.name}-{task.name}-{index}'}.{spec.get('subdomain') or job.name}"


def hosts_of(job: Job, task: JobTask) -> list[str]:
    """The names by which the pods of a task are found, each once."""
    return list(dict.fromkeys(host_of(job, task, index) for index in range(task.replicas)))


def containers_of(pod: Json, *, with_init: bool = True) -> list[Json]:
    """The containers of a pod."""
    spec = pod["spec"]
    return [*(spec.get("initContainers") or () if with_init else ()), *(spec.get("containers") or ())]


def add_env(container: Json, name: str, value: str) -> None:
    """Give a container a variable."""
    container.setdefault("env", []).append({"name": name, "value": value})


def open_port(container: Json, name: str, number: int) -> None:
    """Declare a port, unless the container has it already."""
    ports = container.setdefault("ports", [])
    if all(port.get("containerPort") != number for port in ports):
        ports.append({"name": name, "containerPort": number})


def metadata_of(job: Job, name: str) -> Json:
    """The metadata of something that stands beside a Job's pods, and goes with the Job."""
    return {"name": name, "namespace": job.namespace, "ownerReferences": [owner_reference(job)]}
