"""All cases, by the names that their results have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from benchmarks.kubernetes.dashboard import u4
from benchmarks.kubernetes.field import Result, Run
from benchmarks.kubernetes.large import k3_and_k4
from benchmarks.kubernetes.preemption import k5
from benchmarks.kubernetes.streams import k1, k1b, k2
from benchmarks.kubernetes.workloads import w1, w2, w3, w4, w5

Case = Callable[[Run], Awaitable[Result | list[Result]]]

CASES: dict[tuple[str, ...], Case] = {
    ("K1",): k1,
    ("K1b",): k1b,
    ("K2",): k2,
    ("K3", "K4"): k3_and_k4,
    ("K5",): k5,
    ("W1",): w1,
    ("W2",): w2,
    ("W3",): w3,
    ("W4",): w4,
    ("W5",): w5,
    ("U4",): u4,
}
