// Decisions: the cycles, what each tried and decided and why, and evictions as a picture of who left for whom.

import type { JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type CycleCard, type Group } from "../api";
import { Flow, type Stream } from "../Flow";
import { number, plural, sentence } from "../format";
import { Commands, JobLink, Link, Missing, NodeLink, NothingYet, Panel, Reason, Segments, useSource, When } from "../parts";
import { address, go, linkTo, status, useData, useValue, withQuery } from "../store";
import { Record } from "../Timeline";

interface Answer {
  cycles: CycleCard[];
  before: number | null;
}

type Kind = "" | "bind" | "evict" | "nominate";

export function DecisionsPage() {
  const { query } = useValue(address);
  const feed = useValue(status);
  const source = useSource();
  const wanted = new URLSearchParams();
  for (const name of ["job", "kind", "quiet"]) {
    const value = query.get(name);
    if (value) wanted.set(name, value);
  }
  const cycle = query.get("cycle") ?? query.get("at");
  if (cycle) {
    wanted.set("before", String(Number(cycle) + 1));
    if (query.get("cycle")) wanted.set("quiet", "true");
  }
  const first = useData<Answer>(`/api/decisions?${wanted}`, !cycle);
  const [older, setOlder] = useState<{ of: string; cards: CycleCard[]; before: number | null }>({ of: "", cards: [], before: null });
  const key = wanted.toString();
  const isMore = older.of === key;
  const found = [...(first.data?.cycles ?? []), ...(isMore ? older.cards : [])];
  // One cycle is looked at, whether anything was decided in it or not; of those before it only those that decided something.
  const cards = query.get("quiet") ? found : found.filter((card) => String(card.cycle) === query.get("cycle") || card.groups.length > 0 || card.error);
  const before = isMore ? older.before : (first.data?.before ?? null);
  async function more(): Promise<void> {
    const next = new URLSearchParams(wanted);
    next.set("before", String(before));
    const answer = await ask<Answer>(`/api/decisions?${next}`);
    setOlder({ of: key, cards: [...(isMore ? older.cards : []), ...answer.cycles], before: answer.before });
  }
  if (!first.data) return <Missing of={first} what="the decisions" />;
  const job = query.get("job");
  const isMissing = query.get("cycle") !== null && found.length > 0 && found[0]?.cycle !== Number(cycle);
  return (
    <div class="decisions">
      <Panel
        title={job ? <>Decisions about <JobLink job={job} /></> : query.get("cycle") ? `Decisions up to cycle ${query.get("cycle")}` : "Decisions, the latest first"}
        aside={
          <>
            <Segments<Kind>
              label="Kind"
              value={(query.get("kind") ?? "") as Kind}
              options={[
                { value: "", label: "All" },
                { value: "bind", label: "Bound" },
                { value: "evict", label: "Evicted" },
                { value: "nominate", label: "Promised" },
              ]}
              onChange={(kind) => go(withQuery({ kind }))}
            />
            <label class="check">
              <input type="checkbox" checked={query.get("quiet") === "true"} onChange={(event) => go(withQuery({ quiet: event.currentTarget.checked ? "true" : null }))} />
              also cycles without a decision
            </label>
            {query.get("cycle") && <button type="button" onClick={() => go(withQuery({ cycle: null }))}>show later ones, too</button>}
            {job && <button type="button" onClick={() => go(withQuery({ job: null, cycle: null }))}>show all jobs</button>}
          </>
        }
      >
        {cards.length === 0 && <p class="muted">{query.get("kind") || job ? "No decision is like that." : <NothingYet />}</p>}
        {cards.length === 0 && !query.get("quiet") && <Quiet />}
        {isMissing && <p class="notice" role="status">There is no cycle {cycle}; these are the ones before it.</p>}
        <ol class="cycles">
          {cards.map((card) => <Card key={card.cycle} card={card} chosen={query.get("cycle") === String(card.cycle)} />)}
        </ol>
        {before !== null && <button type="button" onClick={() => void more()}>Earlier cycles</button>}
        <Commands commands={feed?.live ? [] : [`muster simulate ${source}`]} api={["/api/cycles", `/api/decisions?${wanted}`]} />
      </Panel>
    </div>
  );
}

/** Where nothing was decided, it is of interest who would have liked something to be. */
function Quiet() {
  const feed = useValue(status);
  if (!feed?.waiting) return null;
  return (
    <p>
      <Link href={linkTo("/jobs", { state: "waiting,promised" })}>{plural(feed.waiting, "job")} wait{feed.waiting === 1 ? "s" : ""}</Link>; what was tried for{" "}
      {feed.waiting === 1 ? "it" : "them"} stands with <Link href={withQuery({ quiet: "true" })}>the cycles without a decision</Link>.
    </p>
  );
}

function Card({ card, chosen }: { card: CycleCard; chosen: boolean }) {
  const place = useRef<HTMLLIElement>(null);
  useEffect(() => {
    if (chosen) place.current?.scrollIntoView({ block: "nearest" });
  }, [chosen]);
  const evictions = card.groups.filter((group) => group.kind === "evict");
  const others = card.groups.filter((group) => group.kind !== "evict");
  const tried = Object.entries(card.actions).filter(([, action]) => Object.keys(action.attempts).length || action.dryRuns);
  return (
    <li ref={place} class={chosen ? "chosen" : ""}>
      <header>
        <Link href={withQuery({ cycle: String(card.cycle) })}><b>cycle {card.cycle}</b></Link>
        <When time={card.time} />
        {card.counts.bind > 0 && <span class="chip is-running">{card.counts.bind} bound</span>}
        {card.counts.evict > 0 && <span class="chip is-bad">{card.counts.evict} evicted</span>}
        {card.counts.nominate > 0 && <span class="chip is-promised">{card.counts.nominate} promised</span>}
        <Link href={linkTo("/cluster", { at: String(card.cycle) })} class="quiet">the cluster then</Link>
      </header>
      {card.error && <p class="warn">{card.error}</p>}
      {evictions.length > 0 && <WhoForWhom groups={evictions} gained={others} />}
      {others.length > 0 && (
        <List
          of={others.map((group, i) => (
            <li key={i}>
              <span class={`verb is-${group.kind}`}>{group.kind === "bind" ? "bound" : group.pods[0]?.node ? "promised" : "promise taken back"}</span>
              <p><JobLink job={group.job} /> <span class="muted">{plural(group.n, "pod")}</span> <Nodes group={group} /></p>
              <p class="muted"><Reason text={group.why} /></p>
            </li>
          ))}
        />
      )}
      {card.tried.length > 0 && (
        <details>
          <summary>Why {plural(card.tried.length, "job")} found no place</summary>
          <List of={card.tried.map((each) => <li key={each.job}><span class="verb">waits</span><p><JobLink job={each.job} /></p><p class="muted"><Reason text={each.message} /></p></li>)} />
        </details>
      )}
      {tried.length > 0 && (
        <details>
          <summary>How room was looked for</summary>
          <ul class="plain">
            {tried.map(([name, action]) => (
              <li key={name}>
                <b>{name}</b>: {Object.entries(action.attempts).map(([outcome, count]) => `${count} × ${outcome}`).join(", ") || "no turn"}; {plural(action.dryRuns, "dry run")}
                {action.cutShort > 0 && `, ${action.cutShort} cut short`}, {action.milliseconds.toFixed(1)} ms
              </li>
            ))}
          </ul>
        </details>
      )}
      {card.failures.length > 0 && <p class="warn">{card.failures.map((failure) => `${failure.what} refused: ${failure.error}`).join("; ")}</p>}
    </li>
  );
}

const SHOWN = 8;

/** The first ones; a busy cycle decides more than anybody reads. */
function List({ of }: { of: JSX.Element[] }) {
  const [all, showAll] = useState(false);
  return (
    <>
      <ul class="groups">{all ? of : of.slice(0, SHOWN)}</ul>
      {!all && of.length > SHOWN && <button type="button" onClick={() => showAll(true)}>{number(of.length - SHOWN)} more</button>}
    </>
  );
}

function Nodes({ group, word = "on" }: { group: Group; word?: string }) {
  const counts = new Map<string, number>();
  for (const pod of group.pods) if (pod.node) counts.set(pod.node, (counts.get(pod.node) ?? 0) + 1);
  const nodes = [...counts];
  if (!nodes.length) return null;
  return (
    <span class="muted">
      {word}{" "}
      {nodes.slice(0, 4).map(([node, count], i) => (
        <span key={node}>{i > 0 && ", "}<NodeLink node={node} />{count > 1 && ` ×${count}`}</span>
      ))}
      {nodes.length > 4 && ` and ${nodes.length - 4} more`}
    </span>
  );
}

/** Evictions of a cycle: a picture of who left for whom, and below it why. */
function WhoForWhom({ groups, gained }: { groups: Group[]; gained: Group[] }) {
  const streams = new Map<string, Stream>();
  for (const group of groups) {
    const key = `${group.job}\0${group.beneficiary}`;
    const known = streams.get(key) ?? { from: group.job, to: group.beneficiary, amount: 0 };
    streams.set(key, { ...known, amount: known.amount + group.n });
  }
  const queueOf = new Map(groups.flatMap((group) => [[group.job, group.queue], [group.beneficiary, group.beneficiaryQueue]]));
  return (
    <div class="exchange">
      <Flow
        streams={[...streams.values()]}
        heads={["evicted", "for whom"]}
        of="job"
        amount={(total) => plural(total, "pod")}
        giver={(job, total) => (
          <>
            <JobLink job={job} />
            <span class="muted">{plural(total, "pod")}, queue {queueOf.get(job) || "none"}</span>
          </>
        )}
        taker={(job) =>
          job ? (
            <>
              <JobLink job={job} />
              <span class="muted">queue {queueOf.get(job) || "none"}{placesOf(job, gained)}</span>
            </>
          ) : (
            <>
              <b>nobody</b>
              <span class="muted">its gang was broken</span>
            </>
          )
        }
      />
      <List
        of={groups.map((group, i) => (
          <li key={i}>
            <span class="verb is-evict">evicted</span>
            <p><JobLink job={group.job} /> <span class="muted">{plural(group.n, "pod")}</span> <Nodes group={group} word="from" /></p>
            <div>
              <p class="muted"><Reason text={group.why} /></p>
              {group.balance && <p class="muted">{sentence(group.balance)}</p>}
              {group.record && <Record record={group.record} />}
            </div>
          </li>
        ))}
      />
    </div>
  );
}

/** Where a job was promised room in the same cycle. */
function placesOf(job: string, gained: Group[]): string {
  const nodes = [...new Set(gained.filter((group) => group.job === job).flatMap((group) => group.pods.map((pod) => pod.node)))].filter(Boolean);
  if (!nodes.length) return "";
  return `; gets ${nodes.slice(0, 2).join(", ")}${nodes.length > 2 ? ` and ${nodes.length - 2} more` : ""}`;
}
