"""The contract of a plugin of Jobs, how its arguments are read, and where plugins come from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Final, TypeVar

from muster.api import Problem, UserError
from muster.api.fields import nearest
from muster.api.objects.batch import Job, JobTask
from muster.controllers.contract import Apply, Create, Json, Target, owner_reference
from muster.controllers.job_plugins.keys import key_pair

GROUP: Final = "muster.job_plugins"
MAX_PORT: Final = 65535
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


class Arguments(list[str]):
    """The arguments of one plugin as a Job gives them, and what was asked of them: the rest has no effect."""

    def __init__(self, given: Iterable[str]) -> None:
        super().__init__(given)
        #: Names that were asked for, and whether a value may stand in the next argument.
        self.asked: dict[str, bool] = {}
        #: Tasks that the Job must have, by the argument that names them.
        self.tasks: dict[str, str] = {}
        #: Values that can be read, and that nothing can be done with.
        self.faults: list[str] = []

    def names(self) -> Iterator[str]:
        """Each argument without its value, as it is written."""
        is_value = False
        for argument in self:
            key, given, _ = argument.partition("=")
            if not is_value:
                yield key
            is_value = not is_value and not given and self.asked.get(_name(key), False)

    def problems(self, job: Job) -> Iterator[str]:
        """Say what has no effect, or not the one that is meant."""
        for key in self.names():
            if _name(key) not in self.asked or not key.startswith("-"):
                yield self._unknown(key)
        yield from self.faults
        for name, task in self.tasks.items():
            if task_named(job, task) is None:
                known = ", ".join(each.name for each in job.spec.tasks)
                yield f'--{name}: expected the name of a task, got "{task}"; there are {known}'

    def _unknown(self, key: str) -> str:
        if near := nearest(_name(key), self.asked):
            return f'unknown argument "{key}"; did you mean --{near}?'
        known = ", ".join(f"--{name}" for name in sorted(self.asked))
        return f'unknown argument "{key}"; {f"known: {known}" if known else "the plugin takes none"}'


def _name(key: str) -> str:
    return key.lstrip("-")


def flag(arguments: Sequence[str], name: str, default: _Value) -> _Value:
    """The value of an argument, written as --name=value or --name value; one dash will do, and the last one counts.

    Raises JobPluginError.
    """
    if isinstance(arguments, Arguments):
        arguments.asked[name] = not isinstance(default, bool)
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


def task_flag(arguments: Sequence[str], name: str, default: str, *, is_needed: bool = False) -> str:
    """The task that an argument names; `is_needed`: without the task that is meant by default nothing is done."""
    task = flag(arguments, name, default)
    if isinstance(arguments, Arguments) and (is_needed or name in map(_name, arguments.names())):
        arguments.tasks[name] = task
    return task


def port_flag(arguments: Sequence[str], name: str, default: int) -> int:
    """The port that an argument gives."""
    port = flag(arguments, name, default)
    if isinstance(arguments, Arguments) and not 0 < port <= MAX_PORT:
        arguments.faults.append(f"--{name}: expected a port between 1 and {MAX_PORT}, got {port}")
    return port


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
            found[name] = make(Arguments(job.spec.plugins[name]))
            found[name].make_keys = make_keys
        except JobPluginError as error:
            raise JobPluginError(error.text, field=f"spec.plugins.{name}") from None
    return found


def argument_problems(job: Job) -> Iterator[Problem]:
    """Arguments of a Job's plugins that have no effect, or not the one that is meant; the plugins go on without them.

    Plugins that are not installed here are not asked, and neither are those that read their arguments themselves.
    """
    for name in sorted(_registered().keys() & job.spec.plugins.keys()):
        field, given = f"spec.plugins.{name}", Arguments(job.spec.plugins[name])
        try:
            plugin = _registered()[name](given)
        except JobPluginError as error:
            yield Problem(field, error.text)
            continue
        if given.asked or type(plugin).__init__ is JobPlugin.__init__:
            yield from (Problem(field, text) for text in given.problems(job))


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
