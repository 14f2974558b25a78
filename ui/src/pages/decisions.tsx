// Decisions: the cycles, what each tried and decided and why, and evictions as a picture of who left for whom.

import { useEffect, useRef, useState } from "preact/hooks";
import { ask, type CycleCard, type Group } from "../api";
import { plural } from "../format";
import { Dot, JobLink, Link, Missing, NodeLink, Panel, Reason, Segments, When } from "../parts";
import { address, go, linkTo, useData, useValue, withQuery } from "../store";
import { Record } from "./job";

interface Answer {
  cycles: CycleCard[];
  before: number | null;
}

type Kind = "" | "bind" | "evict" | "nominate";

export function DecisionsPage() {
  const { query } = useValue(address);
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
  const cards = [...(first.data?.cycles ?? []), ...(isMore ? older.cards : [])];
  const before = isMore ? older.before : (first.data?.before ?? null);
  async function more(): Promise<void> {
    const next = new URLSearchParams(wanted);
    next.set("before", String(before));
    const answer = await ask<Answer>(`/api/decisions?${next}`);
    setOlder({ of: key, cards: [...(isMore ? older.cards : []), ...answer.cycles], before: answer.before });
  }
  if (!first.data) return <Missing of={first} what="the decisions" />;
  const job = query.get("job");
  return (
    <div class="decisions">
      <Panel
        title={job ? <>Decisions about <JobLink job={job} /></> : "Decisions, the latest first"}
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
              quiet cycles
            </label>
            {(job || query.get("cycle")) && <button type="button" onClick={() => go(withQuery({ job: null, cycle: null }))}>show all</button>}
          </>
        }
      >
        {cards.length === 0 && <p class="muted">Nothing was decided.</p>}
        <ol class="cycles">
          {cards.map((card) => <Card key={card.cycle} card={card} chosen={query.get("cycle") === String(card.cycle)} />)}
        </ol>
        {before !== null && <button type="button" onClick={() => void more()}>Earlier cycles</button>}
      </Panel>
    </div>
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
      {evictions.length > 0 && <WhoForWhom groups={evictions} />}
      {others.length > 0 && (
        <ul class="groups">
          {others.map((group, i) => (
            <li key={i}>
              <span class={`verb is-${group.kind}`}>{group.kind === "bind" ? "bound" : group.pods[0]?.node ? "promised" : "promise taken back"}</span>
              <JobLink job={group.job} /> <span class="muted">{plural(group.n, "pod")}</span> <Nodes group={group} />
              <p class="muted">{group.why}</p>
            </li>
          ))}
        </ul>
      )}
      {card.tried.length > 0 && (
        <details>
          <summary>{plural(card.tried.length, "job")} tried in vain</summary>
          <ul class="groups">
            {card.tried.map((each) => <li key={each.job}><JobLink job={each.job} /> <Reason text={each.message} /></li>)}
          </ul>
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

function Nodes({ group }: { group: Group }) {
  const counts = new Map<string, number>();
  for (const pod of group.pods) if (pod.node) counts.set(pod.node, (counts.get(pod.node) ?? 0) + 1);
  const nodes = [...counts];
  if (!nodes.length) return null;
  return (
    <span class="muted">
      on{" "}
      {nodes.slice(0, 4).map(([node, count], i) => (
        <span key={node}>{i > 0 && ", "}<NodeLink node={node} />{count > 1 && ` ×${count}`}</span>
      ))}
      {nodes.length > 4 && ` and ${nodes.length - 4} more`}
    </span>
  );
}

/** Evictions of a cycle: on the left who left, on the right for whom. */
function WhoForWhom({ groups }: { groups: Group[] }) {
  const beneficiaries = [...new Set(groups.map((group) => group.beneficiary))];
  return (
    <div class="exchange">
      {beneficiaries.map((beneficiary) => {
        const victims = groups.filter((group) => group.beneficiary === beneficiary);
        return (
          <div key={beneficiary} class="pair" role="group" aria-label={`evicted for ${beneficiary || "nobody"}`}>
            <ul>
              {victims.map((group, i) => (
                <li key={i}>
                  <div class="victim">
                    <Dots count={group.n} name={group.job} />
                    <JobLink job={group.job} dot={false} /> <span class="muted">{plural(group.n, "pod")}, queue {group.queue || "none"}</span>
                  </div>
                  <p class="muted">{group.why}</p>
                  {group.record && <Record record={group.record} />}
                </li>
              ))}
            </ul>
            <span class="arrow is-evict" aria-label="left for">→</span>
            <div class="beneficiary">
              {beneficiary ? <JobLink job={beneficiary} /> : <span class="muted">nobody: the gang had fallen below its minimum</span>}
              {beneficiary && <span class="muted">queue {victims[0]?.beneficiaryQueue || "none"}</span>}
            </div>
          </div>
        );
      })}
    </div>
  );
}

function Dots({ count, name }: { count: number; name: string }) {
  return <span class="dots" aria-hidden="true">{Array.from({ length: Math.min(count, 12) }, (_, i) => <Dot key={i} name={name} />)}</span>;
}
