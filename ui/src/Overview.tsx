// Under the map: who waits first and why, and what was decided last. Asked for once the map is drawn.

import type { CycleCard, Jobs } from "./api";
import { number, plural } from "./format";
import { Chip, JobLink, Link, MadeBy, NothingYet, Panel, Reason, When } from "./parts";
import { howLong, sinceWhen } from "./pages/jobs";
import { linkTo, status, useAt, useData, useValue } from "./store";

const SHOWN = 5;
/** Also who runs with what it needs at least, and has pods that wait. */
const IN_LINE = "waiting,promised,growing";
/** Of more jobs the list takes long to make; it has its own page. */
const MOST_JOBS = 5000;

export function Overview() {
  const feed = useValue(status);
  const jobs = feed && feed.running !== null ? feed.running + (feed.waiting ?? 0) : -1;
  if (jobs < 0 || jobs > MOST_JOBS) return null;
  return (
    <div class="columns">
      <Waiting />
      <Latest />
    </div>
  );
}

function Waiting() {
  const { data } = useData<Jobs>(`/api/jobs?state=${IN_LINE}&limit=${SHOWN}`);
  return (
    <Panel title="Who waits, first in line first" aside={<Link href={linkTo("/jobs")}>all jobs</Link>}>
      {!data && <p class="muted">Reading …</p>}
      {data?.found === 0 && <p class="muted">Nobody waits.</p>}
      <ul class="brief">
        {data?.jobs.map((row) => (
          <li key={row.job}>
            <JobLink job={row.job} /> <MadeBy row={row} />
            <span class="muted">{row.state === "growing" ? `${plural(row.pending, "more pod")} would like to run` : `${sinceWhen(row)} ${howLong(row)}`}</span>{" "}
            {row.state !== "waiting" && <Chip state={row.state} />}
            <p><Reason text={row.reason} /></p>
          </li>
        ))}
      </ul>
      {data && data.found > SHOWN && <Link href={linkTo("/jobs", { state: IN_LINE })}>{number(data.found - SHOWN)} more</Link>}
    </Panel>
  );
}

const VERBS: Record<string, string> = { bind: "bound", evict: "evicted", nominate: "promised" };

function Latest() {
  const at = useAt();
  const { data } = useData<{ cycles: CycleCard[] }>(`/api/decisions?limit=${SHOWN}${at === null ? "" : `&before=${at + 1}`}`);
  const groups = (data?.cycles ?? []).flatMap((card) => card.groups.map((group) => ({ card, group }))).slice(0, SHOWN);
  return (
    <Panel title="Decided last" aside={<Link href={linkTo("/decisions")}>all decisions</Link>}>
      {data && groups.length === 0 && <p class="muted"><NothingYet /></p>}
      <ul class="brief latest">
        {groups.map(({ card, group }, i) => (
          <li key={i}>
            <span class={`verb is-${group.kind}`}>{VERBS[group.kind] ?? group.kind}</span>
            <p>
              <JobLink job={group.job} /> <span class="muted whole">{plural(group.n, "pod")}</span>
              {group.kind === "evict" && group.beneficiary && <> for <JobLink job={group.beneficiary} /></>}
            </p>
            <Link href={linkTo("/decisions", { cycle: String(card.cycle) })} class="quiet"><When time={card.time} /></Link>
          </li>
        ))}
      </ul>
    </Panel>
  );
}
