"""The contract between scheduler and plugins: what each extension point is asked, when, and what it answers.

A plugin is a class with a `name` that overrides the methods it cares about; a method that is not overridden
is never called. One instance serves one session: `__init__(arguments)` checks the arguments (raise `UserError`
with the argument's name), `open(session)` prepares, `close()` reports. Plugins read the session's snapshot and
never change it. Answers must depend on the input alone: no clock but `session.now`, no randomness but
`session.rng`. Rows (job, queue, task, class, node) are row numbers of the session's snapshot.

How the answers of several plugins become one, and what they must be like, stands in `muster.framework.points`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from muster.framework.reasons import Reason, Verdicts
from muster.snapshot import Amounts, Mask, Pieces, Rows
from muster.snapshot.classes import Division
from muster.snapshot.columns import quick_to_name

if TYPE_CHECKING:
    from muster.framework.session import Session

#: Anything that sorts; smaller goes first.
OrderKey = Any  # tuples of numbers and strings: comparing keys of one plugin is all that is ever done


class Arguments(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of a plugin's or action's arguments.

    Field names may be renamed to the dotted names of the configuration file with
    `msgspec.field(name="binpack.cpu")`; the meaning of a field is `Annotated[T, Meta(description=...)]`.
    Values arrive as YAML gave them, also as text: numbers and booleans in quotes are accepted.
    """


@quick_to_name
class Vote(IntEnum):
    """An opinion on admitting a job."""

    REJECT = -1
    ABSTAIN = 0
    PERMIT = 1


@quick_to_name
class Purpose(IntEnum):
    """What a search space is for."""

    ALLOCATE = 0
    EVICT = 1


@quick_to_name
class Eviction(IntEnum):
    """Between whom an eviction takes place."""

    #: Jobs of one queue: by priority.
    PREEMPT = 0
    #: Jobs of different queues: by what the queues deserve.
    RECLAIM = 1
    #: Jobs that make room by moving: whoever has to go is placed elsewhere.
    CONSOLIDATE = 2


@dataclass(frozen=True, slots=True)
class Evictor:
    """Who asks for room, and how victims are chosen for it."""

    job: int
    #: Its tasks that need a place: the one in question where victims are chosen task by task, else all of them.
    tasks: Rows
    #: Whether gangs may be broken: who chooses has counted what each gang can spare, and takes whole gangs if it must.
    breaks_gangs: bool = False
    #: Whether every candidate is asked about by itself: what is too much together is for `scenario_validator` to see.
    each_alone: bool = False


@dataclass(frozen=True, slots=True)
class Rejection:
    """No, and why: the reason code, and the numbers behind it as text."""

    reason: Reason
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """Who would go for whom: what scenario filters and validators judge.

    Filters see it before the dry run, when nobody is known to have found another place; validators see it after.
    Rows are in eviction order. `victims` are all that the search has offered so far, `evicted` and `moved` those of
    them that this trial takes: without a new place, and to a place elsewhere.
    """

    kind: Eviction
    #: The job that profits.
    evictor: int
    #: Its tasks that get a place.
    pending: Rows
    victims: Rows
    evicted: Rows
    moved: Rows


@dataclass(frozen=True, slots=True)
class UsageHistory:
    """How far back a plugin wants to know what queues had, and how fast that fades."""

    window_s: float
    #: After so many seconds a resource-second counts half; None: it counts in full until it leaves the window.
    half_life_s: float | None = None


@dataclass(frozen=True, slots=True)
class Departure:
    """Tasks that have to leave where they are although nobody takes their place, and why."""

    tasks: Rows
    #: Completes "evicted: ...".
    why: str


@dataclass(frozen=True, slots=True)
class Protection:
    """From whom a gang is still protected, and for how long."""

    #: By whom it could be evicted: PREEMPT, jobs of its own queue; RECLAIM, those of other queues.
    kind: Eviction
    #: RECLAIM: the queues, each with all that are below it.
    queues: tuple[str, ...]
    seconds: float


#: Whether a scenario is worth a dry run.
ScenarioFilter = Callable[[Scenario], bool]


@dataclass(frozen=True, slots=True)
class NodeScores:
    """How nodes are scored for a class: `fixed` does not change within a session, `terms` follow the node state.

    `terms` are rows of `muster.kernels.placement`: [kind, weight, weight per resource ...].
    """

    fixed: NDArray[np.float64] | None = None
    terms: Sequence[Sequence[float]] = ()


class Plugin:
    """Base class: override what you care about."""

    name: ClassVar[str]
    #: One line for `muster plugins`.
    summary: ClassVar[str] = ""
    #: What `job_order` orders jobs by, for lists: "behind train by priority". Empty: the plugin's name will do.
    orders_by: ClassVar[str] = ""
    Args: ClassVar[type[Arguments]] = Arguments
    #: True: whoever `evictable` leaves out is protected. Such plugins are asked across all tiers, by every strategy and
    #: whatever flags are set; False: the answer is an opinion, and the tiers decide whose counts.
    protects: ClassVar[bool] = False
    #: The kinds of eviction on which `evictable` may have something to say.
    victim_kinds: ClassVar[frozenset[Eviction]] = frozenset(Eviction)
    #: True promises for `evictable`: there is always an opinion; it depends on the evictor's queue, priority and
    #: request alone; and candidates that are named together, of one node or of many, may go together.
    #: The engine then asks once for many nodes and tasks, else once per node and task.
    steady_victims: ClassVar[bool] = False
    #: False: what `search_space` answers for evictions is made without looking at victims, and how many domains it
    #: names is all that counts; the engine puts the domains into an order of its own.
    search_space_is_final: ClassVar[bool] = True

    #: True promises for `node_score`: it depends only on the class and on the nodes' own objects, as `node_mask` does.
    #: The answer is then kept across cycles until one of them changes.
    steady_scores: ClassVar[bool] = False

    #: Labels and annotations of pods that `node_mask` and `node_score` read. Pods of one class share the answer, so
    #: those that differ in one of these are made classes of their own; other labels of a class cannot be read.
    pod_labels: ClassVar[tuple[str, ...]] = ()
    pod_annotations: ClassVar[tuple[str, ...]] = ()

    #: What the plugin needs in `Session.usage`, set by `__init__`; None: nothing. The first that asks decides.
    history: UsageHistory | None = None
    #: Whether the record of what owners' jobs took is kept for it (`Session.run_times`).
    wants_run_times: ClassVar[bool] = False
    #: How many seconds a pod may wait for its claims to be bound, set by `__init__`; None: no opinion. As `history`.
    volume_wait_s: float | None = None

    def __init__(self, arguments: Arguments) -> None:
        self.arguments = arguments

    def divide_classes(self, session: Session) -> Division | None:
        """Tell apart tasks of one class for which `node_mask` or `node_score` differ; None: nothing to tell apart.

        For what is not in a pod's requests and constraints on nodes: its queue, the hour; `pod_labels` and
        `pod_annotations` do the same for labels and annotations. Each part becomes a class of its own, whose part is
        in `session.class_parts`. Asked once, before any plugin is opened.
        """

    def open(self, session: Session) -> None:
        """Prepare for one session; called once, before any other method but `divide_classes`."""
        self.session = session

    def close(self) -> None:
        """The actions are done; last chance to look."""

    # -- order: smaller keys go first; keys are compared plugin by plugin, tier by tier ----------------------

    def job_order(self, job: int) -> OrderKey:
        """Key of a job among the jobs of its queue. Asked when the job is put in line, anew after each turn."""

    def job_orders(self, jobs: Rows) -> NDArray[Any]:
        """As `job_order`, for many jobs at once; only for plugins whose keys are numbers."""
        raise AssertionError("only called when overridden")

    def queue_order(self, queue: int) -> OrderKey:
        """Key of a queue among all queues. Asked again after anything was placed in the queue or beside it."""

    def task_order(self, tasks: Rows) -> NDArray[np.int64]:
        """Keys of tasks within their job, for all given tasks at once."""
        raise AssertionError("only called when overridden")

    def subgroup_order(self, subgroup: int) -> OrderKey:
        """Key of a sub-group among those of its job."""

    def victim_queue_order(self, queue: int, reclaimer: int) -> OrderKey:
        """Key of a queue as a source of victims for the queue `reclaimer`."""

    def queue_turn(self, queue: int, job: int, leaving: Amounts | None) -> OrderKey:
        """Key of a queue among its siblings, when queues take turns down the tree.

        `job` is the first job in line below the queue, NO_ROW when victims are looked for; `leaving` is then what is
        held by those below it who have been offered as victims, the next job included: all that it had each time it
        was offered. Who was promised a place holds nothing yet. Victims come from the last queue first.
        A plugin with this point makes queues a tree: jobs may only be in its leaves.
        """

    def victim_order(self, job: int, left: Rows) -> OrderKey:
        """As `job_order`, for a victim of which only the tasks `left` are left; the last job goes first.

        Asked in the place of `job_order` where a plugin has both.
        """

    def victim_orders(self, jobs: Rows, left: Pieces) -> NDArray[Any]:
        """As `victim_order` or else `job_order`, for many jobs; only for plugins whose keys are numbers."""
        raise AssertionError("only called when overridden")

    # -- gangs ---------------------------------------------------------------------------------------------

    def job_valid(self, job: int) -> Rejection | None:
        """Can the job run at all? Every plugin must agree. Not controlled by a flag."""

    def jobs_valid(self, jobs: Rows) -> Mask:
        """Bool for each of many jobs: whether it surely has nothing against it, so that it need not be asked alone."""
        raise AssertionError("only called when overridden")

    def job_ready(self, job: int) -> int:
        """How many more tasks at least must be placed before the job is ready; 0 = ready. The largest answer counts."""
        return 0

    def job_pipelined(self, job: int) -> int:
        """As `job_ready`, but tasks that wait for room to be released count as placed."""
        return 0

    def subgroup_ready(self, subgroup: int) -> int:
        """As `job_ready`, for one sub-group of a job that has sub-groups."""
        return 0

    def subgroup_pipelined(self, subgroup: int) -> int:
        """As `job_pipelined`, for one sub-group."""
        return 0

    def job_starving(self, job: int) -> bool:
        """Does the job need more than it has, so that it may evict? Every plugin with an opinion must agree."""
        return True

    def job_enqueueable(self, job: int) -> Vote | Rejection:
        """May a waiting job be admitted? A reject wins at once; a tier with a permit ends the question.

        A `Rejection` is a reject that tells why.
        """
        return Vote.ABSTAIN

    def job_enqueued(self, job: int) -> None:
        """The job was admitted."""

    def job_waits(self, job: int) -> bool:
        """A job had its turn in allocate and got no place. True: jobs of its queue have to be put in order again.

        Every plugin is told; one yes is enough.
        """
        return False

    def queue_closed(self, queue: int) -> Rejection | None:
        """A job of the queue has found no place in allocate: why nobody behind it may start; None: somebody may."""

    def start_nodes(self, job: int, tasks: Rows) -> Rejection | Mask | None:
        """Where a job may start now although others wait before it; None: no opinion.

        Asked by allocate before the job has its turn, and where it would be promised room that others leave anyway. A
        rejection: it has to wait; a mask: on these nodes only, bool per node. Masks of one object are taken to mean
        the same within a session. The first answer counts.
        """

    # -- nodes: all nodes at once ----------------------------------------------------------------------------

    def node_mask(self, cls: int) -> Verdicts:
        """Why tasks of a class may not go to each node (FITS: they may), free resources aside.

        Must depend only on the class and on the nodes' own objects (labels, taints, conditions): the answer is
        kept across cycles until one of them changes. Every plugin must agree; the first reason is shown.
        """
        raise AssertionError("only called when overridden")

    def task_mask(self, task: int) -> Verdicts | None:
        """As `node_mask`, for what depends on the other pods of the moment; None: nothing to add.

        Asked right before each placement, only for tasks that `live_tasks` names.
        """

    def live_tasks(self) -> Rows:
        """Pending tasks for which `task_mask` or `task_score` has something to say. Asked once, after `open`."""
        raise AssertionError("only called when overridden")

    def node_score(self, cls: int) -> NodeScores:
        """Scores of every node for a class; the sums of all plugins are compared, larger is better."""
        raise AssertionError("only called when overridden")

    def task_score(self, task: int) -> NDArray[np.float64] | None:
        """As `node_score`, for what depends on the other pods of the moment; see `task_mask`."""

    # -- domains of the network ------------------------------------------------------------------------------

    def domain_gradients(self, job: int, subgroup: int, scope: int) -> Sequence[Rows] | None:
        """Domains to try for a job (subgroup = NO_ROW) or one of its sub-groups, inside the domain `scope`.

        Gradients in order of preference: the first that has a solution ends the search. Domains that break a hard
        constraint are dropped whatever a plugin answers. The first plugin with a non-empty answer wins; None or
        empty: no opinion, the gradients are the tiers from the lowest up to the highest allowed.
        """

    def domain_score(self, job: int, subgroup: int, domains: Rows) -> NDArray[np.float64]:
        """How good each domain is for a job (subgroup = NO_ROW) or sub-group; sums are compared, larger is better."""
        raise AssertionError("only called when overridden")

    def expected_domain_score(self, request: Amounts, used: Amounts, allocatable: Amounts) -> NDArray[np.float64]:
        """As `domain_score`, for domains as a look-ahead expects them: what they would hold, int64[domains, resources].

        Asked in the place of `domain_score` where a plugin has both and tasks are only thought of as placed.
        """
        raise AssertionError("only called when overridden")

    def search_space(self, job: int, purpose: Purpose) -> Rows | None:
        """Domains where a job may be placed, best first; None or empty: no opinion, see `muster.engine.domains`.

        ALLOCATE: all in which a job with a topology constraint may start, of those that hold the constraint. EVICT: the
        few that are worth evicting in.
        """

    # -- queues --------------------------------------------------------------------------------------------

    def overused(self, queue: int) -> bool:
        """Has the queue had its share already? One yes is enough to pass it over."""
        return False

    def queue_allocatable(self, queue: int, request: Amounts) -> int:
        """How many more tasks with this request the queue may hold now. The smallest answer counts."""
        raise AssertionError("only called when overridden")

    def queue_deserved(self, queue: int) -> Amounts | None:
        """What the queue ought to have now, UNLIMITED where nothing says; None: no opinion.

        The first answer counts. Reclaim protects it, whatever tier the plugin stands in, and reports show it.
        """

    def queue_fair_share(self, queue: int) -> Amounts | None:
        """What the queue may have now at the cost of others, UNLIMITED where nothing says; None: no opinion.

        The first answer counts. Reports show it.
        """

    def over_capacity(self, job: int, tasks: Rows) -> Rejection | None:
        """Would these tasks of the job, all together, take a queue above them beyond its limits?

        Every plugin must agree. Asked before a chunk of a gang is placed, in earnest or in a dry run.
        """

    def over_quota(self, job: int, tasks: Rows) -> Rejection | None:
        """Would these tasks of a job that is not preemptible hold more than its queues are guaranteed?

        Every plugin must agree; for preemptible jobs the answer is None. Asked before preempt looks for victims.
        """

    def preemptive(self, queue: int, tasks: Rows) -> bool:
        """May the queue take resources from others for these tasks? Every plugin must agree."""
        return True

    # -- evictions ----------------------------------------------------------------------------------------------

    def evictable(self, kind: Eviction, evictor: Evictor, candidates: Rows) -> Rows | None:
        """Which candidates may go for the evictor? None: no opinion.

        One question for every kind of eviction and every strategy; Volcano's PreemptableFn, ReclaimableFn and
        UnifiedEvictableFn, and KAI's victim filters. Candidates stand in the order in which they would be taken: what
        a plugin counts (a queue's share, a budget) is used up from the front, unless each is asked about alone.
        Plugins that protect (`protects`) are asked across all tiers, and each of them must agree. Beyond that the
        tiers decide: intersection within a tier, and the first tier with an opinion counts. `enablePreemptable` and
        `enableReclaimable` turn the opinion off where victims are chosen task by task.
        """

    def protected(self, kind: Eviction, evictor: int, victims: Rows) -> Mask:
        """Which of the jobs `victims` must keep their minimum against the job `evictor`? One yes is enough.

        Respected by every strategy, whatever tier the plugin stands in: such a gang gives what it can spare, no more.
        Must depend on the evictor's queue alone, not on the evictor itself: the engine asks once for many of them.
        """
        raise AssertionError("only called when overridden")

    def protections(self, job: int, now: float) -> Sequence[Protection]:
        """From whom does the job keep its minimum, and for how many seconds more as of `now`? Reports show it."""
        return ()

    def select_victims(self, evictor: Evictor, domain: int, candidates: Rows) -> Rows | None:
        """Replace the choice of victims for a gang in a domain; None: no opinion. The first answer wins.

        `evictor.tasks` are what needs a place; candidates stand in the order in which they would be taken.
        """

    def tasks_added(self, tasks: Rows, nodes: Rows) -> None:
        """Tasks have got places on these nodes: for good, as a promise, or in a dry run.

        For plugins that keep books of their own: what a dry run adds and removes is told as it happens, and told the
        other way round when it is undone, so that books that follow are right whenever the plugin is asked something.
        """

    def tasks_removed(self, tasks: Rows, nodes: Rows) -> None:
        """Tasks have lost their places on these nodes: they are evicted, or what was added has been undone."""

    def must_leave(self) -> Sequence[Departure]:
        """Running tasks that have to go although nobody takes their place.

        Asked once, at the end of preempt or gangpreempt. Critical pods stay, and PodDisruptionBudgets are respected.
        """
        return ()

    # -- the solver's evictions: jobs as units, scenarios as trials -------------------------------------------

    def can_reclaim(self, job: int, tasks: Rows) -> Rejection | None:
        """May the job take from other queues for these tasks? Every plugin must agree; without any, nobody may."""

    def solution_start(self, kind: Eviction, job: int) -> None:
        """The search for a job's victims begins: what a validator compares with is as it stands now."""

    def scenario_filters(self, kind: Eviction, job: int) -> Sequence[ScenarioFilter]:
        """Cheap questions for every scenario of a job, asked before its dry run; one no is enough to pass it over."""
        return ()

    def scenario_validator(self, kind: Eviction, scenario: Scenario) -> bool:
        """Is the outcome of a dry run acceptable? Every plugin must agree."""
        return True
