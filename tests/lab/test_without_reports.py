"""Replays need not say why jobs wait: what they spare for that changes no decision."""

from __future__ import annotations

from hypothesis import example, given, settings
from hypothesis import strategies as st

from muster.lab.policies import find_policy
from muster.lab.replay import Replay
from muster.lab.sources.tables import uniform_nodes
from muster.lab.trace import Trace, TraceJob
from muster.scheduler import builtin_registry
from muster.snapshot.messages import Decision

REGISTRY = builtin_registry(third_party=False)
CONFIGS = ["muster", "volcano", "kai", "policy:fifo", "policy:skip", "policy:easy", "policy:easy-shortest"]
#: When it comes, how long it runs, GPUs of a task, tasks, in which of two queues, with which priority.
ROWS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(1, 60),
        st.sampled_from([1, 2, 4, 8]),
        st.integers(1, 4),
        st.integers(0, 1),
        st.integers(0, 1),
    ),
    min_size=6,
    max_size=16,
)


def story(trace: Trace, config: str, *, tells: bool) -> list[tuple[float, tuple[Decision, ...]]]:
    """Every cycle that decided something, and what."""
    replay = Replay(trace, uniform_nodes(2, 8), find_policy(config), registry=REGISTRY)
    replay._scheduler._reports = tells
    made: list[tuple[float, tuple[Decision, ...]]] = []
    run_once = replay._scheduler.run_once

    def watched():  # type: ignore[no-untyped-def]  # noqa: ANN202
        result = run_once()
        if result.decisions:
            made.append((result.time, result.decisions))
        return result

    replay._scheduler.run_once = watched  # type: ignore[method-assign]
    replay.run()
    return made


#: In the cycle at 22 one of a queue without victims of its own gets the rest of the room that others are evicted for.
LEFT_OVER = [(0, 41, 4, 3, 1, 0), (4, 1, 8, 1, 1, 0), (22, 5, 1, 3, 0, 0), (40, 51, 1, 2, 0, 0)]
LEFT_OVER += [(23, 13, 1, 2, 0, 0)] * 2 + [(0, 1, 1, 1, 0, 0)] * 8


@settings(max_examples=25, deadline=None)
@example(rows=LEFT_OVER, config="muster", n_queues=2)
@given(rows=ROWS, config=st.sampled_from(CONFIGS), n_queues=st.integers(1, 2))
def test_who_need_not_explain_decides_the_same(
    rows: list[tuple[int, int, int, int, int, int]], config: str, n_queues: int
) -> None:
    jobs = [
        TraceJob(
            f"j{k:02d}",
            float(at),
            float(run),
            n,
            (("nvidia.com/gpu", str(gpus)),),
            queue=f"q{queue % n_queues}",
            priority=priority,
            expected_s=float(run),
        )
        for k, (at, run, gpus, n, queue, priority) in enumerate(sorted(rows))
    ]
    assert story(Trace(jobs), config, tells=False) == story(Trace(jobs), config, tells=True)
