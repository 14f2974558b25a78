"""KAI's function cases: input in, output out, through adapters that call the function of Muster that answers.

Adapters are kept by area. Steps that a case lists beside its input are handed over as `steps` of the input.
An answer is compared as a whole, or key by key where it is a mapping.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.cases import Body, Case
from conformance.kai_fairness import ADAPTERS as FAIRNESS
from conformance.kai_minruntime import ADAPTERS as MIN_RUNTIME
from conformance.kai_order import ADAPTERS as ORDER
from conformance.kai_topology import ADAPTERS as TOPOLOGY
from conformance.results import Mismatch, Value

#: Input of the case -> its output.
KaiAdapter = Callable[[Body], Value]

KAI_ADAPTERS: dict[str, KaiAdapter] = {**FAIRNESS, **MIN_RUNTIME, **ORDER, **TOPOLOGY}

#: Parts of an output that are text for people: Muster says the same in its own words.
_OWN_WORDS = frozenset({"message"})
#: Parts that say why there is no answer: that there is none counts, the words do not.
_REFUSALS = frozenset({"error", "fitErrors"})


def compare_kai_function(case: Case) -> Iterator[Mismatch]:
    """Yield the parts of the output that differ."""
    given = case.body.get("input") or {}
    if "steps" in case.body:
        given = {**given, "steps": case.body["steps"]}
    wanted, got = case.body["output"], KAI_ADAPTERS[case.body["function"]](given)
    if not (isinstance(wanted, dict) and isinstance(got, dict)):
        if got != wanted:
            yield Mismatch("output", wanted, got)
        return
    if not wanted and any(got.values()):
        yield Mismatch("output", wanted, got)
    for key, value in wanted.items():
        found = got.get(key)
        agrees = bool(found) == bool(value) if key in _REFUSALS else found == value
        if key not in _OWN_WORDS and not agrees:
            yield Mismatch(key, value, found)
