"""What a reader is told where a page has little to show, too much, or something that is easily overlooked."""

import json
import re
from collections.abc import Iterable
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from benchmarks.ui import FIRST_DRAWN, large_feed
from muster.api import load_text
from muster.cluster import load_timeline
from muster.framework import default_config
from muster.ui.app import Desk
from muster.ui.feeds import Feed, FileFeed, Label, Played
from muster.ui.runs import Runs
from tests.explain.clusters import gang, group, node, pod, queue
from tests.ui.browser.conftest import Open
from tests.ui.conftest import finished

expect.set_options(timeout=20_000)


def played(name: str, documents: Iterable[str]) -> FileFeed:
    return finished(name, Played(load_text("---".join(documents), name), default_config()))


def panel(page: Page, title: str | re.Pattern[str]) -> Locator:
    return page.locator(".panel", has=page.get_by_role("heading", name=title))


URGENT = """
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: urgent}
value: 9
"""


@pytest.fixture(scope="module")
def crowded() -> FileFeed:
    """One job for which twelve others leave, of a node that takes no more pods while most of it is free."""
    full = node("n1", 64).replace('pods: "110"', 'pods: "12"')
    held = [
        text
        for i in range(12)
        for text in (group(f"low-{i:02}", 1), pod(f"low-{i:02}-0", 0, group=f"low-{i:02}", on="n1"))
    ]
    urgent = [
        group("high", 12, extra=", priorityClassName: urgent"),
        *(pod(f"high-{i}", 0, group="high") for i in range(12)),
    ]
    return played("crowded", [full, *held, URGENT, *urgent])


def test_many_that_left_for_one_are_counted_and_can_be_looked_at(show: Open, crowded: FileFeed) -> None:
    page = show(Desk(crowded), "/jobs/team/high")
    line = page.locator(".timeline > li").filter(has_text="room made")
    expect(line).to_have_count(1)
    expect(line).to_contain_text("room made by evicting 12 jobs 12 pods from n1")
    expect(line.get_by_role("link", name="team/low-07")).to_be_hidden()
    line.get_by_text("which, and why").click()
    expect(line.get_by_role("link", name="team/low-07")).to_be_visible()
    left, right = page.locator(".flow ul").all()
    expect(left.locator("li")).to_have_count(8)
    expect(left.locator("li").last).to_contain_text("5 more jobs5 pods")
    expect(right.locator("li")).to_have_text(["this job12 pods left for it"])


def test_a_node_that_takes_no_more_pods_is_said_to_be_the_trouble(show: Open, crowded: FileFeed) -> None:
    page = show(Desk(crowded), "/jobs/team/low-03")
    expect(panel(page, "Why does it wait?")).to_contain_text("Closest: n1, which holds as many pods as it may")
    place = panel(page, "Who has its place?")
    expect(place.get_by_role("heading", name="Who got what it lacks while it waited")).to_be_visible()
    expect(place.locator(".amounts")).to_contain_text("team/highsince +30s12 pods")
    page.get_by_role("link", name="Cluster", exact=True).click()
    expect(page.locator(".figures")).to_contain_text("pods, of those that nodes take100 % 12 of 12")


def test_of_a_gang_of_several_kinds_it_is_said_which_pod_is_spoken_of(show: Open) -> None:
    ray = group("ray", 2, extra=", minTaskMember: {head: 1, worker: 1}, networkTopology: {mode: soft}")
    members = [
        pod("ray-head", 0, group="ray", notes="volcano.sh/task-spec: head"),
        pod("ray-worker", 8, group="ray", notes="volcano.sh/task-spec: worker"),
    ]
    page = show(Desk(played("ray", [node("n1"), pod("held", 8, on="n1"), ray, *members])), "/jobs/team/ray")
    expect(page.get_by_role("heading", name="What the only node says of ray-worker")).to_be_visible()
    expect(panel(page, "Why does it wait?")).to_contain_text("It asks for 8 GPUs, 1 CPU.")
    expect(panel(page, "What would let it start?")).to_contain_text("add 1 node like n1")


def test_without_nodes_the_first_page_says_who_waits(show: Open) -> None:
    page = show(Desk(played("no nodes", gang("train", 2, 1))), "/cluster")
    expect(panel(page, "There is no node")).to_be_visible()
    expect(panel(page, re.compile("Who waits")).get_by_role("link", name="team/train")).to_be_visible()
    page.goto(page.url.replace("/cluster", "/jobs/team/empty"))
    page.get_by_role("link", name="What was decided about it").click()
    expect(page).to_have_url(re.compile(r"/decisions\?job=team%2Fempty"))


def test_what_a_reason_asks_for_is_said_where_nothing_can_be_tried(show: Open) -> None:
    page = show(Desk(played("no pods", [node("n1"), group("train", 3)])), "/jobs/team/train")
    expect(panel(page, "What would let it start?")).to_contain_text("What the reason asks for: ")


def test_pods_that_would_like_to_run_are_on_the_first_page(show: Open) -> None:
    page = show(Desk(played("grows", [node("n1"), *gang("train", 3, 4, minimum=1)])), "/cluster")
    page.wait_for_function(FIRST_DRAWN)
    waits = panel(page, re.compile("Who waits"))
    expect(waits).to_contain_text("team/train 1 more pod would like to run growing")


def test_a_queue_counts_the_jobs_of_those_below_it(show: Open) -> None:
    queues = [queue("all"), queue("part", "weight: 1, parent: all")]
    desk = Desk(
        played("tree", [node("n1"), *queues, *gang("train", 1, 4, queue="part"), *gang("next", 1, 8, queue="part")])
    )
    page = show(desk, "/queues")
    for name in ("all", "part"):
        row = page.get_by_role("row", name=re.compile(f"^{name} "))
        expect(row.locator("td")).to_contain_text([name, "", "4", "12", "", "", "", "", "1", "1", "1"])
    page.goto(page.url + "?queue=none")
    expect(page.get_by_role("status").filter(has_text="There is no queue none.")).to_be_visible()
    page.get_by_role("link", name="Show all queues").click()
    expect(page.locator(".chart canvas").first).to_be_visible()


def test_where_nothing_was_decided_those_are_named_who_wait(show: Open) -> None:
    page = show(Desk(played("full", [node("n1"), pod("held", 8, on="n1"), *gang("train", 1, 8)])), "/decisions")
    expect(page.locator("main")).to_contain_text("Nothing was decided")
    page.get_by_role("link", name="the cycles without a decision").click()
    page.get_by_text("Why 1 job found no place").click()
    expect(page.get_by_role("link", name="team/train")).to_be_visible()
    page.goto(page.url.split("?")[0] + "?cycle=99")
    expect(page.get_by_role("status").filter(has_text="There is no cycle 99")).to_be_visible()


def test_a_command_is_about_the_cycle_that_is_looked_at(show: Open, demo: FileFeed) -> None:
    page = show(Desk(demo), "/jobs?at=4")
    page.get_by_text("As a command").click()
    expect(page.locator(".commands code").first).to_have_text(re.compile("^muster jobs .* --cycles 4$"))


def test_of_replays_alone_other_pages_say_where_to_look(show: Open, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        report = f'{{"name": "{name}", "trace": "{name}.csv", "wait_s": {{"mean": {len(name)}}}, "finished": 3}}'
        (tmp_path / name / "report.json").write_text(report)
    feed = Feed(Label("replay", "replays"), default_config())
    feed.has_ended = True
    page = show(Desk(feed, Runs((tmp_path,))), "/jobs")
    expect(page.locator("main")).to_contain_text("Replays alone are shown here")
    expect(page.get_by_role("navigation").get_by_role("link")).to_have_text(["Lab"])
    page.get_by_role("link", name="Go to the lab").click()
    expect(page.locator("main")).to_contain_text("These are runs of 2 traces, so none is called the best.")
    expect(page.get_by_role("row", name="trace one.csv two.csv")).to_be_visible()
    expect(page.locator(".best")).to_have_count(0)


def test_a_made_up_name_stands_beside_the_one_that_people_know(show: Open) -> None:
    owner = "ownerReferences: [{apiVersion: ray.io/v1, kind: RayCluster, name: tune, uid: u1, controller: true}]"
    head = pod("tune-head", 9, group="podgroup-1f").replace("metadata: {", f"metadata: {{{owner}, ")
    page = show(Desk(played("owned", [node("n1"), group("podgroup-1f", 1), head])), "/cluster")
    expect(panel(page, re.compile("Who waits"))).to_contain_text("team/podgroup-1f RayCluster tune")
    page.get_by_role("link", name="all jobs").click()
    page.get_by_role("searchbox", name="Name or reason").fill("raycluster")
    expect(page).to_have_url(re.compile("q=raycluster"))
    expect(page.get_by_role("row", name=re.compile("podgroup-1f RayCluster tune"))).to_be_visible()
    page.get_by_role("link", name="team/podgroup-1f").click()
    expect(page.locator(".facts")).to_contain_text("made byRayCluster tune")


#: Whether some of a canvas has the colour of an element.
HAS_COLOUR = """() => {
    const wanted = getComputedStyle(document.querySelector('.head .dot')).backgroundColor.match(/[0-9]+/g).map(Number);
    const canvas = document.querySelector('.map canvas');
    const data = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
    for (let i = 0; i < data.length; i += 4)
        if (wanted.every((part, k) => part === data[i + k])) return true;
    return false;
}"""


def test_the_small_map_shows_where_a_job_is_in_a_large_cluster(show: Open) -> None:
    feed = large_feed(4_000, 16_000)
    latest = feed.history.latest
    assert latest is not None
    assert latest.session is not None
    last = [name for name in latest.session.snapshot.jobs.index if "running" in name][-1]
    page = show(Desk(feed), f"/jobs/{last}")
    expect(panel(page, "Where it is")).to_be_visible()
    expect(page.locator(".head .facts")).to_contain_text("made before")
    page.wait_for_function(HAS_COLOUR)


def test_what_the_terminal_notes_about_the_input_is_on_the_page_too(show: Open) -> None:
    loaded = load_text("---".join([node("n1"), group("train", 1)]), "noted.yaml")
    loaded.notes.append("noted.yaml: document 2 (PodGroup team/train): no pod names it")
    page = show(Desk(finished("noted", Played(loaded, default_config()))), "/config")
    expect(panel(page, "Perhaps not meant as it is written")).to_contain_text("no pod names it")


def test_a_node_that_is_found_comes_into_view_on_a_small_screen(show: Open) -> None:
    page = show(Desk(large_feed(2_000, 8_000)), "/cluster", width=390)
    page.wait_for_function(FIRST_DRAWN)
    page.keyboard.press("/")
    page.keyboard.type("node-01017")
    expect(page.get_by_role("listbox").get_by_role("option")).to_contain_text(["node-01017"])
    page.keyboard.press("Enter")
    expect(panel(page, "node-01017")).to_be_in_viewport(ratio=0.2)


def test_a_job_that_lost_its_place_waits_since_then(show: Open, tmp_path: Path) -> None:
    urgent = "---".join([group("high", 1, extra=", priorityClassName: urgent"), pod("high-0", 8, group="high")])
    (tmp_path / "urgent.yaml").write_text(urgent)
    (tmp_path / "later.timeline").write_text("- {at: 5m, add: [urgent.yaml]}\n")
    objects = load_text("---".join([URGENT, node("n1"), *gang("low", 1, 8)]), "low")
    timeline = load_timeline(tmp_path / "later.timeline")
    page = show(Desk(finished("lost", Played(objects, default_config(), timeline))), "/jobs/team/low")
    expect(page.locator(".facts")).to_contain_text(re.compile("waits again for[0-9]+s"))
    place = panel(page, "Who has its place?")
    expect(place.locator(".amounts")).to_contain_text(re.compile("team/highsince .5m"))
    expect(place.locator(".lost")).to_contain_text("Its priority is 0, that of the job for which it left 9")
    expect(panel(page, "To pass on")).to_contain_text("copy the link to this cycle")
    expect(panel(page, "To pass on")).not_to_contain_text("kubectl")


def test_it_is_said_what_nodes_are_short_of_in_numbers_that_people_read(show: Open) -> None:
    nodes = [node("n1", cpus=1), node("n2"), node("n3")]
    half = pod("half", 0, on="n1").replace('cpu: "1"', "cpu: 500m")
    held = [half, pod("one", 8, on="n2"), pod("two", 8, on="n3")]
    page = show(Desk(played("short", [*nodes, *held, *gang("train", 1, 1)])), "/jobs/team/train")
    why = panel(page, "Why does it wait?")
    expect(why).to_contain_text("lack free resources: GPUs on 2, CPUs on 1 (n1, n2, n3)")
    expect(why).to_contain_text("Closest: n1, which lacks 0.5 CPUs")


def test_where_there_is_one_queue_nothing_is_said_of_others(show: Open) -> None:
    """Also amounts without thousandths, and why nobody of the same queue leaves."""
    node_and_pods = [node("n1", 0, 2), pod("held", 0, on="n1").replace('cpu: "1"', "cpu: 1500m")]
    page = show(Desk(played("one", [*node_and_pods, *gang("train", 2, 0), *gang("more", 2, 0)])), "/jobs/team/train")
    why, place = panel(page, "Why does it wait?"), panel(page, "Who has its place?")
    expect(why.get_by_role("row", name="CPUs 2 0.5 1.5")).to_be_visible()
    expect(place.locator(".amounts")).to_contain_text("1.5 CPUs")
    expect(place).to_contain_text("nobody in its queue who holds nodes has a lower priority")
    expect(page.locator(".answers")).not_to_contain_text("other queue")


def test_of_one_seed_it_is_said_how_many_times_as_much_it_is(show: Open, tmp_path: Path) -> None:
    judged = {"mean": 60.0, "low": None, "high": None, "ratio": None, "verdict": None}
    twice = {**judged, "mean": 120.0, "ratio": 2.0, "verdict": "one-seed"}
    case = {"jobs": 3, "figures": {"wait_s.mean": {"muster": judged, "kai": twice}}}
    told = {"seeds": [0], "vary": "none", "baseline": "muster", "cases": {"a trace": case}}
    (tmp_path / "compare.json").write_text(json.dumps(told))
    feed = Feed(Label("replay", "replays"), default_config())
    feed.has_ended = True
    page = show(Desk(feed, Runs((tmp_path,))), "/lab")
    expect(page.locator("main")).to_contain_text("1 seed, against muster")
    expect(page.get_by_role("row", name="wait, mean")).to_contain_text("2m×2.00")
    expect(page.locator("main")).not_to_contain_text("one-seed")


def test_who_comes_before_a_job_is_of_its_queue_or_of_others(show: Open) -> None:
    queues = [queue("first", "weight: 9"), queue("second")]
    waiting = [*gang("a", 1, 8, queue="first"), *gang("b", 1, 8, queue="first"), *gang("c", 1, 8, queue="second")]
    page = show(Desk(played("line", [node("n1"), pod("held", 8, on="n1"), *queues, *waiting])), "/jobs/team/c")
    place = panel(page, "Who has its place?")
    expect(place).to_contain_text("In its queue it is first in line; 2 jobs of other queues come before it.")
    page.goto(page.url.replace("/team/c", "/team/b"))
    expect(place).to_contain_text("1 job that waits comes before it in line (behind team/a")
