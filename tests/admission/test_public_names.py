"""The names that the server, recorded cases and tests rely on stay exported."""

import muster.admission


def test_every_exported_name_exists_once() -> None:
    names = muster.admission.__all__
    assert {"HOOKS", "Facts", "Known", "Request", "Settings", "Verdict", "answer", "judge"} <= set(names)
    assert len(names) == len(set(names))
    assert all(hasattr(muster.admission, name) for name in names)
