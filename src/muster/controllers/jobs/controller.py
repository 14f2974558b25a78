"""Keeps together what belongs to each Job, and makes plans for those that there is news of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace as replace_plan
from typing import Final

from msgspec.structs import replace

from muster.api import Condition, KubeObject, Pod, PodGroup, PriorityClass, UserError
from muster.api.kinds import decode_as, encode
from muster.api.objects.batch import Command, Job, fill_job_spec
from muster.controllers.contract import (
    Controller,
    EventKind,
    Keeper,
    Plan,
    Step,
    Tell,
    WriteStatus,
    is_older,
    owner_of,
    target_of,
)
from muster.controllers.job_plugins import plugins_of
from muster.controllers.job_plugins.keys import key_pair
from muster.controllers.jobs.observed import PENDING, RUNNING, Gone, Observed, group_name
from muster.controllers.jobs.reconcile import reconcile

#: The condition of a gang that has its places.
_SCHEDULED: Final = "Scheduled"
#: Phases in which nobody waits to read a count: the next phase follows from the pods.
_STEADY: Final = frozenset({PENDING, RUNNING})


class JobController(Keeper):
    """The Jobs of a cluster. `scheduler_name`: that of pods whose Job names none; `make_keys`: for the plugin ssh.

    `hold_s`: for how long counts of pods alone are held back just now, so that those of pods that start or end together
    are written once: writing a Job costs a server more than making a pod.
    """

    name = "jobs"

    def __init__(
        self,
        scheduler_name: str = "volcano",
        make_keys: Callable[[], tuple[str, str]] = key_pair,
        *,
        hold_s: Callable[[], float] = lambda: 0.0,
    ) -> None:
        self._scheduler_name = scheduler_name
        self._make_keys = make_keys
        self._hold_s = hold_s
        super().__init__()
        self._jobs: dict[str, Job] = {}
        self._pods: dict[str, dict[str, Pod]] = {}
        self._groups: dict[str, PodGroup] = {}
        self._gone: dict[str, list[Gone]] = {}
        self._commands: dict[str, dict[str, Command]] = {}
        self._priorities: dict[str, int] = {}
        #: What plans under way ask to remember of what is gone, by Job: those known when the plan was made, and kept.
        self._planned: dict[str, tuple[frozenset[str], frozenset[str]]] = {}
        #: What was last told of a Job that cannot be worked on.
        self._told: dict[str, str] = {}
        #: Since when there are counts of pods of a Job to write.
        self._held: dict[str, float] = {}
        #: Why gangs of Jobs wait, as it was last told.
        self._waits: dict[str, str] = {}

    # -- news ----------------------------------------------------------------------------------------------

    def take(self, kind: EventKind, thing: KubeObject, now: float) -> None:
        is_gone = kind == "DELETED"
        if isinstance(thing, Job):
            self._take_job(thing, is_gone=is_gone)
        elif isinstance(thing, Pod):
            self._take_pod(thing, now, is_gone=is_gone)
        elif isinstance(thing, PodGroup):
            self._take_group(thing, is_gone=is_gone)
        elif isinstance(thing, Command):
            self._take_command(thing, is_gone=is_gone)
        elif isinstance(thing, PriorityClass):
            self._priorities[thing.name] = thing.value

    def _take_job(self, job: Job, *, is_gone: bool) -> None:
        known = self._jobs.get(job.key)
        if known is not None and known.metadata.uid != job.metadata.uid:
            self._gone.pop(job.key, None)
        if is_gone:
            self._jobs.pop(job.key, None)
            for book in (self._gone, self._told, self._waits, self._held):
                book.pop(job.key, None)
            self.agenda.drop(job.key)
            return
        if known is not None and is_older(job, known):
            return
        self._jobs[job.key] = self._completed(job)
        self.agenda.add(job.key)

    def _completed(self, job: Job) -> Job:
        """The Job with all that it leaves open filled in, also where no webhook has done so."""
        document = encode(job)
        spec = document.setdefault("spec", {})
        assert isinstance(spec, dict)
        fill_job_spec(spec, self._scheduler_name)
        return replace(job, spec=decode_as(document, Job).spec)

    def _take_pod(self, pod: Pod, now: float, *, is_gone: bool) -> None:
        key = owner_of(pod, Job)
        if not key:
            return
        pods = self._pods.setdefault(key, {})
        known = pods.get(pod.name)
        if is_gone:
            if known is not None and known.metadata.uid == pod.metadata.uid:
                del pods[pod.name]
            if not pods:
                del self._pods[key]
            if self._is_of(pod, key):
                self._gone.setdefault(key, []).append(Gone(pod, now))
        elif known is not None and is_older(pod, known):
            return
        else:
            pods[pod.name] = pod
        self.agenda.add(key)

    def _is_of(self, thing: KubeObject, key: str) -> bool:
        """Whether an object belongs to the Job that has this name now, and not to one before."""
        job = self._jobs.get(key)
        return job is not None and any(each.uid == job.metadata.uid for each in thing.metadata.owner_references)

    def _take_group(self, group: PodGroup, *, is_gone: bool) -> None:
        key = owner_of(group, Job)
        if not key:
            return
        self.keep(self._groups, group, is_gone=is_gone)
        self.agenda.add(key)

    def _take_command(self, command: Command, *, is_gone: bool) -> None:
        target = command.target
        if target is None or target.kind != Job.kind:
            return
        key = f"{command.namespace}/{target.name}"
        commands = self._commands.setdefault(key, {})
        if is_gone:
            commands.pop(command.name, None)
        else:
            commands[command.name] = command
        if not commands:
            del self._commands[key]
        self.agenda.add(key)

    # -- plans ---------------------------------------------------------------------------------------------

    def steps(self, now: float) -> Iterator[Step]:
        for key in self.agenda.ready(now):
            job = self._jobs.get(key)
            if job is None:
                self.agenda.settle(key, now)
                continue
            plan = self._with_patience(job, self._plan(job, now), now)
            gone = frozenset(each.pod.metadata.uid for each in self._gone.get(key, ()))
            self._planned[key] = (gone, plan.remember)
            self.agenda.remind(key, plan.due)
            yield Step(self.name, key, plan)

    def _plan(self, job: Job, now: float) -> Plan:
        try:
            plan = reconcile(self.observed(job), now, plugins_of(job, self._make_keys))
        except UserError as fault:
            if self._told.get(job.key) == str(fault):
                return Plan()
            self._told[job.key] = str(fault)
            return Plan((Tell(target_of(job), "JobNotServed", str(fault), is_warning=True),))
        self._told.pop(job.key, None)
        return self._with_word_of_group(job, plan)

    def _with_patience(self, job: Job, plan: Plan, now: float) -> Plan:
        """Hold back a plan that only counts anew, for a moment."""
        if not _only_counts(job, plan):
            self._held.pop(job.key, None)
            return plan
        until = self._held.setdefault(job.key, now) + self._hold_s()
        if now >= until:
            del self._held[job.key]
            return plan
        return replace_plan(plan, actions=(), due=until if plan.due is None else min(plan.due, until))

    def _with_word_of_group(self, job: Job, plan: Plan) -> Plan:
        """Let the Job say why its gang waits, too, once for each reason: people look at what they have made."""
        group = self._group_of(job)
        conditions = [] if group is None else [each for each in group.status.conditions if each.status == "True"]
        last = max(conditions, key=_since, default=None)
        if last is None or last.type == _SCHEDULED:
            self._waits.pop(job.key, None)
            return plan
        said = f"PodGroup {job.key} {last.type.lower()}: {last.message}"
        if self._waits.get(job.key) == said:
            return plan
        self._waits[job.key] = said
        told = Tell(target_of(job), "PodGroupPending", said, is_warning=True)
        return replace_plan(plan, actions=(*plan.actions, told))

    def observed(self, job: Job) -> Observed:
        """All that there is of one Job."""
        key = job.key
        pods = self._pods.get(key, {})
        return Observed(
            job,
            {name: pods[name] for name in sorted(pods) if self._is_of(pods[name], key)},
            self._group_of(job),
            tuple(self._gone.get(key, ())),
            tuple(self._commands.get(key, {}).values()),
            self._priorities,
        )

    def _group_of(self, job: Job) -> PodGroup | None:
        return self._groups.get(f"{job.namespace}/{group_name(job)}")

    def settle(self, key: str, now: float, fault: str = "") -> None:
        known, kept = self._planned.pop(key, (frozenset(), frozenset()))
        super().settle(key, now, fault)
        if fault or key not in self._gone:
            return
        left = [each for each in self._gone[key] if each.pod.metadata.uid in kept or each.pod.metadata.uid not in known]
        if left:
            self._gone[key] = left
        else:
            del self._gone[key]

    def jobs(self) -> list[Job]:
        """All Jobs, by name."""
        return [self._jobs[key] for key in sorted(self._jobs)]


def _only_counts(job: Job, plan: Plan) -> bool:
    """Whether a plan does nothing but write other counts, of a Job that stays where it is."""
    (action,) = plan.actions if len(plan.actions) == 1 else (None,)
    phase = job.status.state.phase
    return isinstance(action, WriteStatus) and phase in _STEADY and action.status["state"]["phase"] == phase


def _since(condition: Condition) -> float:
    moment = condition.last_transition_time
    return 0.0 if moment is None else moment.timestamp()


_check: type[Controller] = JobController  # the contract
