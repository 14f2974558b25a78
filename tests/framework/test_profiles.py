"""Ready configurations: every one can be run, printed and given back, by name or as a file."""

from pathlib import Path

import pytest

from muster.api import UserError
from muster.framework import PROFILES, find_config, parse_config, profile, profile_yaml
from muster.scheduler import builtin_registry
from muster.simulate import simulate
from muster.testing import builders

NAMES = ("muster", "volcano", "kai")


def test_the_profiles_are_known_by_name() -> None:
    assert tuple(PROFILES) == NAMES
    assert all(known.summary and "\n" not in known.summary for known in PROFILES.values())


@pytest.mark.parametrize("name", NAMES)
def test_every_plugin_action_and_argument_of_a_profile_exists(name: str) -> None:
    builtin_registry(third_party=False).check(profile(name), name)


@pytest.mark.parametrize("name", NAMES)
def test_a_profile_starts_a_gang_that_fits_and_no_half_of_one_that_does_not(name: str) -> None:
    objects = [
        builders.node("n1", gpu=4),
        builders.queue("team", deserved={"gpu": 4}),
        *builders.gang("small", 2, queue="team", gpu=2, created=1.0),
        *builders.gang("large", 3, queue="team", gpu=2, created=2.0),
    ]
    jobs = simulate(objects, profile(name)).jobs
    assert (jobs["default/small"].running, jobs["default/large"].running) == (2, 0)


@pytest.mark.parametrize("name", NAMES)
def test_a_name_with_or_without_prefix_and_the_printed_file_are_the_same(name: str, tmp_path: Path) -> None:
    path = tmp_path / "scheduler.yaml"
    path.write_text(profile_yaml(name))
    assert find_config(name) == find_config(f"profile:{name}") == find_config(str(path)) == profile(name)


def test_a_file_of_that_name_comes_before_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = 'actions: "allocate"\ntiers: [{plugins: [{name: gang}]}]\n'
    (tmp_path / "kai").write_text(own)
    monkeypatch.chdir(tmp_path)
    assert find_config("kai") == parse_config(own, "kai")
    assert find_config("profile:kai") == profile("kai")


def test_a_folder_of_that_name_does_not_hide_the_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "kai").mkdir()
    monkeypatch.chdir(tmp_path)
    assert find_config("kai") == profile("kai")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("kay", "kay: cannot read the configuration: no such file, and no profile; there are kai, muster, volcano"),
        ("profile:kay", "there is no profile 'kay'; there are kai, muster, volcano"),
        ("profile:", "there is no profile ''; there are"),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(given: str, words: str) -> None:
    with pytest.raises(UserError) as caught:
        find_config(given)
    assert words in str(caught.value)
