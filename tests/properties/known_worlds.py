"""Worlds in which a run once went wrong, each with what happened there."""

from __future__ import annotations

from tests.properties.busy_worlds import Job, World

KNOWN = {
    # Reclaim, in the same cycle, took the place that consolidation had just given to j2-0.
    "a new place that another gets": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0)},
        jobs=[
            Job("j1", "q0", "high", pods=3, gpus=2, minimum=1, age=30.0),
            Job("j2", "q1", "mid", pods=2, gpus=1, minimum=2, on=["n0", "n2"]),
            Job("j3", "q1", "low", pods=4, gpus=2, minimum=3, firm="system", on=["n1", "n2", "n0", "n1"]),
        ],
        runtime=0,
    ),
    # The place for which j4 went was taken back from j7 in the cycle in which j7 would have been bound there.
    "a place that others went for": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={"r0": ["n0", "n1"], "r1": ["n2"]},
        queues={"q0": ("", 3), "q1": ("", 3), "q2": ("", 0)},
        jobs=[
            Job("j0", "q0", "high", pods=3, gpus=2, minimum=2, firm="mark", on=["n2", "n2", "n1"], age=600.0),
            Job("j2", "q1", "low", pods=3, gpus=1, minimum=2, on=["n0", "n1", "n0"], age=600.0),
            Job("j4", "q2", "mid", pods=3, gpus=1, minimum=3, part=3, on=["n1", "n0", "n0"], age=600.0),
            Job("j5", "q2", "mid", pods=1, gpus=2, minimum=1, part=1),
            Job("j6", "q1", "high", pods=4, gpus=1, minimum=3, network="soft", age=30.0),
            Job("j7", "q1", "mid", pods=1, gpus=2, minimum=1, part=1, age=600.0),
        ],
        runtime=0,
    ),
    # A pod of j1 beyond its minimum sat down on the place for which j2-1 had gone, so that j5 did not start.
    "a place that somebody grows into": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0), "q2": ("", 0)},
        jobs=[
            Job("j0", "q1", "mid", pods=1, gpus=2, minimum=0, on=["n0"], age=30.0),
            Job("j1", "q1", "high", pods=3, gpus=2, minimum=1, budget=1),
            Job(
                "j2",
                "q1",
                "low",
                pods=2,
                gpus=2,
                minimum=1,
                roles={"driver": 1, "worker": 0},
                on=["n0", "n1"],
                age=600.0,
            ),
            Job("j4", "q0", "low", pods=1, gpus=1, minimum=1),
            Job("j5", "q1", "mid", pods=2, gpus=1, minimum=2, firm="mark", age=30.0),
            Job("j6", "q0", "high", pods=1, gpus=2, minimum=1, age=30.0),
        ],
        runtime=0,
    ),
    # j0 lost GPUs within its queue's quota for j2, which asks for no CPUs, because it has some.
    "CPUs that nobody asks for": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 4), "q1": ("", 4), "q2": ("", 0)},
        jobs=[
            Job("j0", "q0", "low", pods=4, gpus=1, minimum=4, cpu=2, on=["n0"] * 4, age=600.0),
            Job("j1", "q2", "mid", pods=8, gpus=1, minimum=8, firm="mark", on=["n1"] * 4 + ["n2"] * 4, age=300.0),
            Job("j2", "q1", "low", pods=4, gpus=1, minimum=4),
        ],
        runtime=0,
    ),
    # What j0 gave back went to j2, which may not take as much by itself, and not to j3, for which j0 was evicted.
    "room for the first in the queue": World(
        nodes={"n0": "", "n1": ""},
        racks={},
        queues={"q0": ("", 4), "q1": ("", 4)},
        jobs=[
            Job("j0", "q0", "mid", pods=6, gpus=1, minimum=6, on=["n0", "n0", "n0", "n0", "n1", "n1"], age=600.0),
            Job("j1", "q1", "high", pods=1, gpus=1, minimum=1, on=["n1"], age=600.0),
            Job("j2", "q1", "mid", pods=5, gpus=1, minimum=5, age=60.0),
            Job("j3", "q1", "low", pods=3, gpus=1, minimum=3, age=30.0),
        ],
        runtime=0,
    ),
    # j1 was moved for j0, and j6, which may move nobody itself, sat down there.
    "room for one who may move nobody": World(
        nodes={"n0": "a", "n1": "b"},
        racks={},
        queues={"d0": ("", 0), "d0t0": ("d0", 0), "d1": ("", 0), "d1t0": ("d1", 0), "d1t1": ("d1", 0)},
        jobs=[
            Job("j0", "d1t1", "low", pods=1, gpus=2, minimum=0, age=30.0),
            Job("j1", "d0t0", "mid", pods=1, gpus=1, minimum=0, on=["n0"], age=30.0),
            Job("j2", "d1t0", "mid", pods=1, gpus=1, minimum=0, pool="b", budget=1, on=["n1"], age=30.0, cpu=1),
            Job("j4", "d1t1", "mid", pods=3, gpus=2, minimum=2, firm="system", on=["n1", "n0"], age=600.0),
            Job("j6", "d1t1", "high", pods=2, gpus=2, minimum=1, pool="a", firm="mark", age=600.0, cpu=1),
        ],
        runtime=60,
    ),
    # j0 was moved for j1, and j2 took both places.
    "two places that the first in the queue takes": World(
        nodes={"n0": "", "n1": ""},
        racks={},
        queues={"d0": ("", 8), "d0t0": ("d0", 0)},
        jobs=[
            Job("j0", "d0t0", "low", pods=1, gpus=4, minimum=1, on=["n0"], tolerates=True),
            Job("j1", "d0t0", "low", pods=1, gpus=2, minimum=0, age=600.0),
            Job("j2", "d0t0", "high", pods=4, gpus=2, minimum=4, tolerates=True),
        ],
        runtime=0,
        tainted=("n1",),
    ),
    # j0 went for j6; before that could start, j2 and j3 of another team used up the limit above both, again and again.
    "a limit above two queues": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"d0": ("", 6), "d0t0": ("d0", 0), "d0t1": ("d0", 0), "d1": ("", 6), "d1t0": ("d1", 0)},
        jobs=[
            Job("j0", "d0t1", "low", pods=1, gpus=4, minimum=1, on=["n1"]),
            Job("j1", "d0t0", "mid", pods=6, gpus=2, minimum=3, part=3, age=600.0),
            Job("j2", "d0t1", "high", pods=1, gpus=1, minimum=1),
            Job("j3", "d0t1", "low", pods=1, gpus=2, minimum=1),
            Job("j4", "d1t0", "high", pods=1, gpus=2, minimum=1),
            Job("j5", "d1t0", "mid", pods=1, gpus=1, minimum=1),
            Job("j6", "d0t0", "mid", pods=1, gpus=2, minimum=0),
            Job("j7", "d0t0", "low", pods=1, gpus=2, minimum=1, age=600.0),
        ],
        runtime=0,
        limits={"d0": 4},
        tainted=("n2",),
    ),
    # j1-0 went for j3, which j2 then evicted together with others of its queue.
    "a job that a higher priority takes next": World(
        nodes={"n0": "", "n1": "", "n2": "", "n3": ""},
        racks={},
        queues={"q0": ("", 8), "q1": ("", 0), "q2": ("", 0)},
        jobs=[
            Job("j0", "q1", "mid", pods=3, gpus=1, minimum=3, on=["n3", "n0", "n3"], age=30.0),
            Job("j1", "q2", "low", pods=2, gpus=2, minimum=1, on=["n2", "n3"], age=600.0),
            Job("j2", "q0", "high", pods=2, gpus=4, minimum=2, age=600.0),
            Job("j3", "q0", "mid", pods=3, gpus=2, minimum=1),
            Job("j4", "q1", "low", pods=1, gpus=1, minimum=1, age=30.0),
            Job("j5", "q0", "mid", pods=1, gpus=4, minimum=0, on=["n1"], age=30.0),
            Job("j6", "q0", "low", pods=2, gpus=2, minimum=1, on=["n2", "n0"], age=30.0),
            Job("j7", "q1", "high", pods=3, gpus=2, minimum=2, firm="system", age=600.0),
        ],
        runtime=0,
    ),
    # Consolidation moved j2-0, and reclaim took the rest of j2, as if what is left were broken.
    "a gang that moves is not broken": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"d0": ("", 3), "d0t0": ("d0", 1), "d0t1": ("d0", 0), "d1": ("", 3), "d1t0": ("d1", 1)},
        jobs=[
            Job("j0", "d1t0", "high", pods=3, gpus=2, minimum=1, age=600.0),
            Job("j1", "d0t0", "mid", pods=2, gpus=1, minimum=1, on=["n0", "n0"], age=30.0),
            Job("j2", "d0t0", "low", pods=4, gpus=1, minimum=4, on=["n2", "n1", "n1", "n1"], age=600.0),
            Job("j3", "d0t0", "mid", pods=4, gpus=2, minimum=2),
            Job("j4", "d0t1", "low", pods=1, gpus=2, minimum=1, age=600.0),
            Job("j5", "d0t0", "high", pods=4, gpus=2, minimum=2, on=["n0", "n2"], age=30.0),
            Job("j6", "d0t0", "mid", pods=4, gpus=2, minimum=1, age=30.0),
        ],
        runtime=0,
    ),
    # j0 was moved so that j3 could grow, and j2 took what it grew by.
    "growth before a minimum": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={
            "d0": ("", 6),
            "d0t0": ("d0", 0),
            "d0t1": ("d0", 0),
            "d1": ("", 6),
            "d1t0": ("d1", 3),
            "d1t1": ("d1", 3),
        },
        jobs=[
            Job("j0", "d0t0", "low", pods=2, gpus=1, minimum=1, age=600.0),
            Job("j1", "d0t1", "high", pods=1, gpus=2, minimum=0, on=["n1"], age=600.0),
            Job("j2", "d0t1", "mid", pods=4, gpus=1, minimum=3, on=["n1", "n2", "n2", "n0"], age=600.0),
            Job("j3", "d0t1", "low", pods=2, gpus=2, minimum=1, on=["n2", "n0"]),
            Job("j4", "d1t1", "mid", pods=1, gpus=4, minimum=1, age=600.0),
            Job("j5", "d0t0", "mid", pods=4, gpus=2, minimum=2, age=30.0),
        ],
        runtime=0,
    ),
    # j0-3 was moved for j2; j1, as important as j0, took both the old and the new place.
    "a new place that nobody keeps": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={"r0": ["n0", "n1"], "r1": ["n2"]},
        queues={"d1": ("", 3), "d1t0": ("d1", 0)},
        jobs=[
            Job("j0", "d1t0", "high", 4, 2, 1, network="soft", on=["n2", "n2", "n1", "n0"], age=30.0, tolerates=True),
            Job("j1", "d1t0", "high", pods=3, gpus=2, minimum=3, age=30.0),
            Job("j2", "d1t0", "mid", pods=1, gpus=4, minimum=0, tolerates=True),
        ],
        runtime=0,
        tainted=("n2",),
    ),
    # In Volcano's profile j1-3 was chosen for j5, and its place given to j3; the record went on to say j5.
    "a record of room that is handed on": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"d0": ("", 0), "d0t0": ("d0", 0), "d0t1": ("d0", 0), "d1": ("", 0), "d1t0": ("d1", 0)},
        jobs=[
            Job("j1", "d0t0", "mid", pods=4, gpus=2, minimum=2, on=["n0", "n2", "n1", "n1"]),
            Job("j2", "d0t0", "mid", pods=2, gpus=2, minimum=1, on=["n2", "n0"]),
            Job("j3", "d1t0", "high", pods=1, gpus=1, minimum=1),
            Job("j5", "d1t0", "mid", pods=1, gpus=2, minimum=1),
            Job("j7", "d0t1", "high", pods=1, gpus=1, minimum=1),
        ],
        runtime=0,
    ),
    # j4 went for j2; j0 and j3 got what j2 left over, so j1 found no room beside it and broke j2.
    "what is left over goes to others": World(
        nodes={"n0": "", "n1": ""},
        racks={},
        queues={"d0": ("", 0), "d0t0": ("d0", 0), "d0t1": ("d0", 0), "d1": ("", 0), "d1t0": ("d1", 0)},
        jobs=[
            Job("j0", "d0t0", "high", pods=1, gpus=1, minimum=1),
            Job("j1", "d0t1", "mid", pods=1, gpus=2, minimum=1),
            Job("j2", "d1t0", "high", pods=3, gpus=2, minimum=3),
            Job("j3", "d1t0", "mid", pods=1, gpus=1, minimum=1),
            Job("j4", "d0t1", "high", pods=4, gpus=2, minimum=4, on=["n1", "n0", "n0", "n1"]),
        ],
        runtime=0,
    ),
    # j4-1 was moved, and when it was bound to its new node, j4-0 was moved too: nothing of a protected gang ran.
    "a gang that moves pod by pod": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"d0": ("", 12), "d0t0": ("d0", 0), "d0t1": ("d0", 0), "d1": ("", 12), "d1t0": ("d1", 0)},
        jobs=[
            Job("j1", "d0t0", "mid", pods=1, gpus=2, minimum=0, budget=1, age=30.0),
            Job("j2", "d1t0", "high", pods=1, gpus=4, minimum=0, firm="mark", on=["n0"]),
            Job("j3", "d0t1", "high", pods=1, gpus=2, minimum=0, age=30.0),
            Job("j4", "d0t0", "low", pods=2, gpus=2, minimum=1, on=["n1", "n1"], age=30.0, tolerates=True),
        ],
        runtime=60,
        tainted=("n2",),
    ),
    # j4-0 was moved because j4-1 had just been bound: the protected gang would have begun anew.
    "a gang that grows and moves at once": World(
        nodes={"n1": "", "n2": ""},
        racks={},
        queues={"d0": ("", 0), "d0t0": ("d0", 0), "d0t1": ("d0", 0)},
        jobs=[
            Job("j1", "d0t0", "mid", pods=1, gpus=1, minimum=0),
            Job("j3", "d0t1", "high", pods=1, gpus=2, minimum=0),
            Job("j4", "d0t0", "low", pods=2, gpus=2, minimum=1, on=["n1"], tolerates=True),
        ],
        runtime=60,
        tainted=("n2",),
    ),
    # j7-1 took what was left of the limit beside j4 or j5 alone; those two then kept each other from starting.
    "two promises under one limit": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"d1": ("", 0), "d1t0": ("d1", 0), "d1t1": ("d1", 0)},
        jobs=[
            Job("j0", "d1t1", "low", pods=3, gpus=2, minimum=2, on=["n0", "n1", "n0"]),
            Job("j4", "d1t1", "high", pods=1, gpus=4, minimum=1),
            Job("j5", "d1t0", "low", pods=2, gpus=1, minimum=2),
            Job("j7", "d1t0", "mid", pods=2, gpus=1, minimum=1),
        ],
        runtime=0,
        limits={"d1": 7},
    ),
    # j3 was promised room that j7 left over, but j7 grew into it, so j3 broke j1, for which j0 had just gone.
    "room that was promised beside an eviction": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 10), "q2": ("", 3)},
        jobs=[
            Job("j0", "q2", "low", pods=4, gpus=4, minimum=1, on=["n0", "n1", "n2"], age=30.0),
            Job("j7", "q1", "high", pods=4, gpus=1, minimum=1, firm="group", age=30.0),
            Job("j9", "q1", "low", pods=1, gpus=1, minimum=0, age=600.0),
            Job("j10", "q0", "low", pods=1, gpus=1, minimum=0, firm="system"),
            Job("j11", "q0", "high", pods=1, gpus=1, minimum=1, age=600.0),
            Job("j12", "q2", "low", pods=1, gpus=2, minimum=1, age=30.0),
            Job("j13", "q0", "high", pods=6, gpus=1, minimum=3, age=600.0),
            Job("j14", "q2", "high", pods=1, gpus=4, minimum=0, age=600.0),
        ],
        runtime=0,
    ),
    # j10-1 and j10-2 were bound in the cycle in which j10-0 went as all that there was of the gang.
    "a gang of which two pods have just begun": World(
        nodes={"n0": "", "n1": "", "n2": "", "n3": "", "n4": ""},
        racks={"r0": ["n0", "n1", "n2"], "r1": ["n3", "n4"]},
        queues={"d0": ("", 10), "d0t0": ("d0", 0), "d1": ("", 10), "d1t0": ("d1", 3)},
        jobs=[
            Job("j0", "d0t0", "mid", pods=2, gpus=4, minimum=1, network=1, on=["n1", "n0"], age=600.0),
            Job("j1", "d0t0", "mid", pods=3, gpus=1, minimum=3, firm="system", on=["n3", "n3", "n3"]),
            Job("j3", "d0t0", "mid", pods=6, gpus=2, minimum=1, network="soft", on=["n2", "n2", "n4", "n4"], age=600.0),
            Job("j5", "d1t0", "mid", pods=2, gpus=2, minimum=2, age=600.0),
            Job("j8", "d0t0", "mid", pods=2, gpus=1, minimum=1, network=1),
            Job("j10", "d1t0", "mid", pods=3, gpus=1, minimum=1, part=1, on=["n3"], age=600.0),
            Job("j13", "d1t0", "mid", pods=6, gpus=1, minimum=1, firm="group", age=600.0),
            Job("j14", "d0t0", "mid", pods=2, gpus=4, minimum=1, network="soft", budget=1),
            Job("j15", "d1t0", "mid", pods=2, gpus=1, minimum=1, age=600.0),
        ],
        runtime=0,
    ),
    # j1 moved to n0 and n2 while two pods of j8 were thought to leave n1; as they stayed, it went to n1, and j8 to n3.
    "a move that those who stay turn elsewhere": World(
        nodes={"n0": "a", "n1": "b", "n2": "a", "n3": "b"},
        racks={"r0": ["n0", "n1"], "r1": ["n2", "n3"]},
        queues={"d0": ("", 11), "d0t0": ("d0", 10)},
        jobs=[
            Job("j0", "d0t0", "low", pods=1, gpus=2, minimum=1, pool="b", firm="system", on=["n3"]),
            Job("j1", "d0t0", "high", pods=4, gpus=1, minimum=4, on=["n2", "n3", "n0", "n1"], age=30.0),
            Job("j2", "d0t0", "low", pods=1, gpus=1, minimum=1, network=1, on=["n1"], age=30.0),
            Job("j4", "d0t0", "high", pods=1, gpus=2, minimum=1, network=1, age=600.0),
            Job("j7", "d0t0", "low", pods=2, gpus=1, minimum=2, pool="b", firm="system", network=1, age=30.0),
            Job(
                "j8",
                "d0t0",
                "high",
                pods=3,
                gpus=1,
                minimum=3,
                pool="b",
                roles={"driver": 1, "worker": 0},
                on=["n1", "n3", "n1"],
            ),
        ],
        runtime=0,
    ),
    # j3 went for j6, and came back into the room that j0 had just left for j9.
    "one that was evicted comes back": World(
        nodes={"n0": "", "n1": "", "n2": "", "n3": ""},
        racks={"r0": ["n0", "n1"], "r1": ["n2", "n3"]},
        queues={"q0": ("", 0), "q1": ("", 7), "q2": ("", 0)},
        jobs=[
            Job("j0", "q2", "mid", pods=3, gpus=1, minimum=1, part=1, on=["n2", "n1", "n2"]),
            Job("j1", "q2", "high", pods=3, gpus=1, minimum=1, network=1),
            Job("j3", "q1", "mid", pods=1, gpus=1, minimum=1, on=["n1"], age=30.0),
            Job("j6", "q1", "high", pods=2, gpus=1, minimum=1, budget=2),
            Job("j7", "q2", "low", pods=8, gpus=4, minimum=1, firm="system", network=1, on=["n0"]),
            Job(
                "j8",
                "q0",
                "high",
                pods=4,
                gpus=2,
                minimum=4,
                roles={"driver": 1, "worker": 1},
                on=["n3", "n1", "n3", "n2"],
                age=30.0,
            ),
            Job("j9", "q1", "low", pods=2, gpus=1, minimum=2),
        ],
        runtime=0,
    ),
    # j6 found nobody, as the plan wanted pods of j1, which a budget keeps: j3 was served, and broken for j6 next.
    "a plan that wants what a budget keeps": World(
        nodes={f"n{k}": "" for k in range(8)},
        racks={},
        queues={"q0": ("", 0)},
        jobs=[
            Job("j1", "q0", "low", pods=3, gpus=1, minimum=1, budget=3, on=["n5", "n2", "n6"]),
            Job("j3", "q0", "mid", pods=8, gpus=1, minimum=3),
            Job(
                "j4",
                "q0",
                "low",
                pods=8,
                gpus=2,
                minimum=4,
                firm="group",
                on=["n2", "n0", "n3", "n7", "n6", "n0", "n3", "n7"],
            ),
            Job("j5", "q0", "mid", pods=5, gpus=1, minimum=3, on=["n1", "n2", "n4", "n5", "n5"]),
            Job("j6", "q0", "high", pods=8, gpus=2, minimum=3),
            Job("j8", "q0", "low", pods=6, gpus=1, minimum=5, budget=1, on=["n5", "n1", "n1", "n6", "n1", "n4"]),
        ],
        runtime=0,
    ),
    # j4 was bound in the cycle in which a pod went for j3: j6 then started in place of both.
    "one of two that have just begun": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0)},
        jobs=[
            Job("j0", "q1", "mid", pods=7, gpus=1, minimum=3, budget=3, on=["n1"] * 3 + ["n0"] * 4),
            Job("j3", "q0", "low", pods=1, gpus=1, minimum=1, on=["n1"]),
            Job("j4", "q0", "mid", pods=1, gpus=1, minimum=1),
            Job("j6", "q0", "high", pods=6, gpus=1, minimum=2),
        ],
        runtime=0,
        tainted=("n2",),
    ),
    # A pod went for j4; with what went for j5 later in the cycle, to keep within a limit, j6 then started there.
    "what others leave beside a promise": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0)},
        jobs=[
            Job("j0", "q1", "mid", pods=7, gpus=1, minimum=3, budget=3, on=["n1"] * 3 + ["n0"] * 4),
            Job("j3", "q0", "low", pods=1, gpus=1, minimum=1, on=["n1"]),
            Job("j4", "q0", "mid", pods=1, gpus=1, minimum=1),
            Job("j6", "q0", "high", pods=6, gpus=1, minimum=2),
            Job("j5", "q1", "high", pods=1, gpus=1, minimum=0, firm="system", age=30.0),
        ],
        runtime=0,
        tainted=("n2",),
    ),
    # j1 went for j5, and then j2, as a whole, for j10 alone: j6 started there, and on what j10 left over.
    "what a gang leaves beside a promise": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={"r0": ["n0", "n1"], "r1": ["n2"]},
        queues={"d0": ("", 12), "d0t0": ("d0", 0), "d1": ("", 12), "d1t0": ("d1", 6), "d1t1": ("d1", 0)},
        jobs=[
            Job("j1", "d0t0", "low", pods=2, gpus=2, minimum=2, network=1, on=["n2", "n2"], age=600.0, cpu=1),
            Job("j2", "d1t1", "mid", pods=6, gpus=1, minimum=5, on=["n0", "n1", "n1", "n0", "n1", "n0"], age=30.0),
            Job("j3", "d1t1", "mid", pods=3, gpus=1, minimum=2, on=["n0", "n1"], age=600.0, cpu=4),
            Job("j5", "d0t0", "mid", pods=2, gpus=2, minimum=2, budget=1, cpu=2),
            Job("j6", "d0t0", "high", pods=4, gpus=1, minimum=3, budget=2, cpu=4),
            Job("j7", "d1t0", "low", pods=4, gpus=2, minimum=4, part=4, age=30.0),
            Job("j10", "d1t1", "high", pods=1, gpus=2, minimum=0),
        ],
        runtime=0,
    ),
    # j1 went for j5; j6 started there, and in the place that a pod of j3 was to move to for j9 in the same cycle.
    "a place to move to beside a promise": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={"r0": ["n0", "n1"], "r1": ["n2"]},
        queues={"d0": ("", 12), "d0t0": ("d0", 0), "d1": ("", 12), "d1t0": ("d1", 6), "d1t1": ("d1", 0)},
        jobs=[
            Job("j1", "d0t0", "low", pods=2, gpus=2, minimum=2, network=1, on=["n2", "n2"], age=600.0, cpu=1),
            Job("j3", "d1t1", "mid", pods=3, gpus=1, minimum=2, on=["n0", "n1"], age=600.0, cpu=4),
            Job("j5", "d0t0", "mid", pods=2, gpus=2, minimum=2, budget=1, cpu=2),
            Job("j6", "d0t0", "high", pods=4, gpus=1, minimum=3, budget=2, cpu=4),
            Job("j7", "d1t0", "low", pods=4, gpus=2, minimum=4, part=4, age=30.0),
            Job("j9", "d1t0", "high", pods=1, gpus=4, minimum=0, cpu=1),
            Job("j10", "d1t1", "high", pods=1, gpus=2, minimum=0),
        ],
        runtime=0,
    ),
    # j0 was broken and too large to come back; nothing was promised to j3 behind it, so j1 took the room, and j3 j2's.
    "free room beside one that cannot come back": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0)},
        jobs=[
            Job("j0", "q1", "high", pods=3, gpus=4, minimum=3, on=["n0", "n1", "n2"]),
            Job("j1", "q0", "mid", pods=2, gpus=4, minimum=2),
            Job("j2", "q0", "mid", pods=2, gpus=2, minimum=2),
            Job("j3", "q1", "mid", pods=1, gpus=1, minimum=1),
        ],
        runtime=0,
    ),
    # What q1 owes was counted up by j2-1, on whose node j5 may not go; so j5 took from j6 what that had just taken.
    "a victim on a node that is of no use": World(
        nodes={"n0": "a", "n1": "b"},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0), "q2": ("", 2)},
        jobs=[
            Job("j0", "q0", "mid", pods=1, gpus=1, minimum=1, on=["n0"], age=600.0),
            Job("j1", "q1", "high", pods=1, gpus=1, minimum=1, pool="b", firm="system", on=["n1"], age=600.0),
            Job("j2", "q1", "low", pods=2, gpus=1, minimum=1, part=1, on=["n0", "n1"], age=600.0),
            Job("j3", "q1", "mid", pods=1, gpus=1, minimum=1, pool="a", on=["n0"], age=30.0),
            Job("j4", "q0", "low", pods=2, gpus=2, minimum=1, firm="group", part=1, on=["n1"], age=600.0),
            Job("j5", "q2", "low", pods=4, gpus=2, minimum=2, pool="a", part=2, age=30.0),
            Job("j6", "q1", "high", pods=1, gpus=2, minimum=1, age=30.0),
        ],
        runtime=0,
    ),
    # Three pods of j1 may not go; the fourth, which it can spare then, was called the whole of it.
    "a gang that spares a pod beside those that are kept": World(
        nodes={"n0": "", "n1": "", "n2": "", "n3": ""},
        racks={},
        queues={"d0": ("", 0), "d0t0": ("d0", 0), "d0t1": ("d0", 0), "d1t1": ("", 0)},
        jobs=[
            Job("j0", "d1t1", "mid", pods=1, gpus=1, minimum=1),
            Job("j1", "d1t1", "mid", pods=4, gpus=2, minimum=1, on=["n0", "n3", "n0", "n2"]),
            Job("j2", "d0t0", "mid", pods=1, gpus=1, minimum=1),
            Job("j3", "d0t1", "mid", pods=1, gpus=4, minimum=0),
            Job("j6", "d0t0", "mid", pods=2, gpus=2, minimum=2, on=["n3", "n1"]),
        ],
        runtime=0,
    ),
    # Nobody else has anything to spare: volcano halves two sub-groups of j1, whose pods share every node.
    "sub-groups that share every node": World(
        nodes={"n0": "", "n1": ""},
        racks={},
        queues={"q0": ("", 0)},
        jobs=[
            Job("j0", "q0", "high", pods=1, gpus=4, minimum=1),
            Job("j1", "q0", "low", pods=4, gpus=2, minimum=2, part=2, on=["n0", "n1", "n0", "n1"]),
        ],
        runtime=0,
    ),
    # j0-1 moved for j7; j5 took the place that it was to move to, so j0-1, which comes before j7, came back to its own.
    "a new place that is taken from who moved for a lower priority": World(
        nodes={"n0": "", "n1": "", "n2": ""},
        racks={"r0": ["n0", "n1"], "r1": ["n2"]},
        queues={"d0t0": ("", 0)},
        jobs=[
            Job("j0", "d0t0", "mid", pods=2, gpus=1, minimum=1, on=["n1", "n2"]),
            Job("j3", "d0t0", "mid", pods=3, gpus=2, minimum=1, firm="group", on=["n0"]),
            Job("j5", "d0t0", "high", pods=2, gpus=2, minimum=2, network=1),
            Job("j7", "d0t0", "low", pods=1, gpus=2, minimum=1),
            Job("j8", "d0t0", "mid", pods=1, gpus=2, minimum=0, on=["n1"]),
        ],
        runtime=0,
    ),
    # The budget lets one pod of j1 go; as that one was asked about, others went that nobody had asked about.
    "a budget for one of several pods": World(
        nodes={"n0": "", "n1": ""},
        racks={},
        queues={"d0t0": ("", 0), "d0t1": ("", 0)},
        jobs=[
            Job("j0", "d0t1", "mid", pods=2, gpus=1, minimum=1),
            Job("j1", "d0t1", "mid", pods=4, gpus=1, minimum=2, budget=3, on=["n1", "n0", "n0", "n0"]),
            Job("j3", "d0t0", "mid", pods=2, gpus=2, minimum=1),
        ],
        runtime=0,
    ),
    # j12 was served as j0 might have broken j13, which is of a higher priority; j0 took j12 and what j13 could spare.
    "a higher priority that is not broken instead": World(
        nodes={f"n{k}": "" for k in range(8)},
        racks={},
        queues={"q0": ("", 0), "q1": ("", 0)},
        jobs=[
            Job("j0", "q1", "high", pods=4, gpus=2, minimum=4),
            Job("j1", "q0", "mid", pods=4, gpus=2, minimum=1, firm="system", on=["n1", "n6", "n6", "n2"]),
            Job("j2", "q0", "mid", pods=4, gpus=4, minimum=4, on=["n4", "n3", "n0", "n7"]),
            Job("j7", "q0", "mid", pods=2, gpus=2, minimum=1, firm="group", on=["n1"], age=600.0),
            Job("j12", "q1", "low", pods=1, gpus=2, minimum=1, age=30.0),
            Job("j13", "q1", "mid", pods=4, gpus=2, minimum=2, age=30.0),
        ],
        runtime=0,
        limits={"q1": 12},
    ),
    # q1 has more CPUs than its share, which j5 asks for, and j2 does not, which comes before it and takes the room.
    "CPUs that the one asks for who comes next": World(
        nodes={"n0": "a", "n1": "b"},
        racks={},
        queues={"q0": ("", 4), "q1": ("", 8), "q2": ("", 0)},
        jobs=[
            Job("j0", "q1", "mid", pods=3, gpus=2, minimum=1, on=["n1", "n1", "n0"], cpu=2),
            Job("j2", "q0", "mid", pods=1, gpus=4, minimum=1),
            Job("j5", "q0", "low", pods=3, gpus=2, minimum=2, cpu=2),
            Job("j6", "q2", "mid", pods=5, gpus=1, minimum=1, cpu=1),
        ],
        runtime=0,
    ),
    # j3 was served as j5 might have taken j1-1, which a budget keeps; so j5 took what j3 had got.
    "a budget that keeps another victim": World(
        nodes={"n0": "", "n1": "", "n2": "", "n3": ""},
        racks={},
        queues={"d0t0": ("", 0), "d0t1": ("", 4), "d1t0": ("", 0), "d1t1": ("", 0)},
        jobs=[
            Job("j0", "d1t1", "mid", pods=1, gpus=1, minimum=1, on=["n2"]),
            Job("j1", "d1t0", "mid", pods=2, gpus=4, minimum=1, budget=1, on=["n0", "n1"]),
            Job("j2", "d1t0", "mid", pods=2, gpus=2, minimum=1, firm="system", on=["n2", "n3"]),
            Job("j3", "d0t0", "mid", pods=4, gpus=1, minimum=4),
            Job("j5", "d0t1", "mid", pods=2, gpus=2, minimum=2),
        ],
        runtime=0,
    ),
    # One pod of j2 was moved; the other ran all the time, so the gang has had its minimum runtime.
    "a gang of which a pod is moved begins not anew": World(
        nodes={"n0": "a", "n2": "a", "n3": "b"},
        racks={},
        queues={"d1t0": ("", 0), "d1t1": ("", 0)},
        jobs=[
            Job("j1", "d1t1", "mid", pods=3, gpus=1, minimum=1, on=["n2", "n3", "n2"]),
            Job("j2", "d1t1", "mid", pods=2, gpus=1, minimum=2, on=["n0", "n2"], age=600.0),
            Job("j3", "d1t1", "high", pods=2, gpus=2, minimum=2, pool="a"),
            Job("j4", "d1t0", "mid", pods=1, gpus=4, minimum=1, age=600.0),
        ],
        runtime=60,
    ),
    # j3 could have n0 only if j0 and j1 both leave it; asked about j1 first, q1 had given enough before j0 was asked.
    "one that is broken together with another": World(
        nodes={"n0": "", "n1": ""},
        racks={},
        queues={"q0": ("", 2), "q1": ("", 0)},
        jobs=[
            Job("j0", "q1", "low", pods=3, gpus=1, minimum=2, roles={"driver": 1, "worker": 0}, on=["n0", "n0", "n1"]),
            Job("j1", "q1", "mid", pods=4, gpus=2, minimum=3, tolerates=True),
            Job("j3", "q0", "mid", pods=1, gpus=4, minimum=1),
        ],
        runtime=0,
        tainted=("n1",),
    ),
}
