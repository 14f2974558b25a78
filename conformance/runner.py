"""Run cases one by one: skip, compare, and judge disagreements.

Every case ends as passed, failed or skipped; an exception inside one is a failure of that case alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from conformance.admission_functions import ADMISSION_ADAPTERS, compare_admission, is_admission
from conformance.cases import KAI, Case
from conformance.disagreements import Disagreements
from conformance.expectations import compare_cycle, unknown_key
from conformance.features import missing_feature
from conformance.functions import ADAPTERS, compare_function
from conformance.kai_expectations import compare_cluster, unknown_kai_key
from conformance.kai_functions import KAI_ADAPTERS, compare_kai_function
from conformance.no_worse import NoWorse, is_judged_so
from conformance.questions import KNOWN_KEYS, compare_answers, has_questions
from conformance.results import FAILED, PASSED, SKIPPED, Mismatch, Result
from conformance.scheduling import open_session, run_cycle
from muster.framework import Registry

_ODD = "odd:"


class Runner:
    """Runs cases against one registry."""

    def __init__(self, registry: Registry, disagreements: Disagreements, *, strict: bool = False) -> None:
        self._registry = registry
        self._disagreements = disagreements
        self._strict = strict
        #: Verdicts on cases where Muster means to do better, and the sums of both sides.
        self.no_worse = NoWorse()

    def run_all(self, cases: Iterable[Case]) -> list[Result]:
        return [self.run(case) for case in cases]

    def run(self, case: Case) -> Result:
        """Run one case."""
        self._disagreements.note(case)
        try:
            feature = self._missing(case)
            if feature:
                return Result(case, SKIPPED, feature=feature)
            mismatches = list(self._mismatches(case))
        except Exception as error:  # noqa: BLE001 - a crash is this case's result; the others still run
            mismatches = [Mismatch("no exception", None, f"{type(error).__name__}: {error}")]
        return self._judge(case, mismatches)

    def _judge(self, case: Case, mismatches: Sequence[Mismatch]) -> Result:
        decided = self._disagreements.judge(case, agrees=not mismatches)
        if not mismatches:
            return Result(case, PASSED)
        if decided:
            return Result(case, SKIPPED, decided=decided, mismatches=mismatches)
        odd = sorted(tag for tag in case.tags if tag.startswith(_ODD))
        if odd:
            return Result(case, SKIPPED, feature=", ".join(odd), mismatches=mismatches)
        return Result(case, FAILED, mismatches=mismatches)

    def _missing(self, case: Case) -> str:
        """Name the feature, function or expectation that a case needs and Muster or the runner lacks."""
        feature = missing_feature(case, self._registry)
        if feature:
            return feature
        if case.is_function:
            function = str(case.body["function"])
            adapters = KAI_ADAPTERS if case.system == KAI else {**ADAPTERS, **ADMISSION_ADAPTERS}
            return "" if function in adapters else f"function {function}"
        if case.system == KAI:
            key = unknown_kai_key(case.body["expect"])
        else:
            key = unknown_key(case.body["expect"], KNOWN_KEYS if has_questions(case) else frozenset())
        return f"expectation {key.partition('(')[0].strip()}" if key else ""

    def _mismatches(self, case: Case) -> Iterator[Mismatch]:
        if case.system == KAI:
            return self._kai_mismatches(case)
        if case.is_function:
            return compare_admission(case) if is_admission(case) else compare_function(case)
        if has_questions(case):
            return compare_answers(case, self._registry)
        cycle = run_cycle(case, self._registry)
        if is_judged_so(case) and not self._strict:
            return self.no_worse.compare(case, open_session(case, self._registry), cycle)
        return compare_cycle(case, cycle, strict=self._strict)

    def _kai_mismatches(self, case: Case) -> Iterator[Mismatch]:
        if case.is_function:
            return compare_kai_function(case)
        return compare_cluster(case, self._registry, strict=self._strict)
