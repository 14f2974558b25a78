// What happened to a job, in order: each entry with its reason and the record of the decision.

import type { ComponentChildren } from "preact";
import type { TimelineEntry } from "./api";
import { clauseEnd, plural, reasonText, sentence } from "./format";
import { JobLink, Link, Reason, When } from "./parts";
import { linkTo } from "./store";

const KINDS: Record<TimelineEntry["kind"], string> = {
  created: "created",
  bind: "bound",
  evict: "evicted",
  nominate: "promised",
  cleared: "room made",
  waits: "waits",
  phase: "",
};

/** What the phases of a PodGroup mean to whoever waits for it. */
const PHASES: Record<string, string> = {
  Pending: "not let in yet",
  Inqueue: "let in: it may ask for nodes",
  Running: "has its minimum",
  Unknown: "fell below its minimum",
  Completed: "finished",
};

/** So many departures in one cycle for the same job are told one by one; more of them are counted first. */
const SHOWN_DEPARTURES = 3;

export function Timeline({ entries, job }: { entries: TimelineEntry[]; job: string }) {
  return (
    <ol class="timeline">
      {together(entries).map((group, i) =>
        group.length <= SHOWN_DEPARTURES ? group.map((entry, j) => (
          <Entry key={`${i}/${j}`} of={entry}><What entry={entry} job={job} /></Entry>
        )) : (
          <Entry key={i} of={group[0] as TimelineEntry}>
            <b>{KINDS.cleared}</b> by evicting {plural(group.length, "job")}
            <span class="muted"> {plural(group.reduce((sum, entry) => sum + entry.pods.length, 0), "pod")} from {nodesOf(...group)}</span>
            <details>
              <summary>which, and why</summary>
              <ul class="plain">{group.map((entry, j) => <li key={j}><What entry={entry} job={job} /></li>)}</ul>
            </details>
          </Entry>
        ),
      )}
    </ol>
  );
}

/** Those that left for the job in one cycle stand together. */
function together(entries: TimelineEntry[]): TimelineEntry[][] {
  const groups: TimelineEntry[][] = [];
  for (const entry of entries) {
    const last = groups.at(-1)?.[0];
    if (entry.kind === "cleared" && last?.kind === "cleared" && last.cycle === entry.cycle) groups.at(-1)?.push(entry);
    else groups.push([entry]);
  }
  return groups;
}

function Entry({ of: entry, children }: { of: TimelineEntry; children: ComponentChildren }) {
  return (
    <li class={`is-${entry.kind}`}>
      <span class="at">
        {entry.cycle === null ? <When time={entry.time} /> : (
          <Link href={linkTo("/decisions", { cycle: String(entry.cycle) })} title={`cycle ${entry.cycle}`}><When time={entry.time} /></Link>
        )}
      </span>
      <div>{children}</div>
    </li>
  );
}

function What({ entry, job }: { entry: TimelineEntry; job: string }) {
  return (
    <>
      <b>{KINDS[entry.kind] || (PHASES[entry.text] ?? entry.text)}</b>
      {entry.kind === "cleared" && entry.job && <> by evicting <JobLink job={entry.job} /></>}
      {entry.kind === "evict" && entry.beneficiary && entry.beneficiary !== job && <> for <JobLink job={entry.beneficiary} /></>}
      {entry.pods.length > 0 && (
        <span class="muted"> {plural(entry.pods.length, "pod")} {entry.kind === "evict" || entry.kind === "cleared" ? "from" : "on"} {nodesOf(entry)}</span>
      )}
      {entry.kind !== "created" && entry.kind !== "phase" && <Told text={entry.text} />}
      {entry.balance && <p class="muted">{sentence(entry.balance)}</p>}
      {entry.record && <Record record={entry.record} />}
    </>
  );
}

/** The first clause says it; the rest is for those who ask. */
function Told({ text }: { text: string }) {
  text = text.replace(/^([a-z-]+): (.*)$/s, (_, code: string, said: string) => `${code}: ${reasonText(said)}`);
  const cut = clauseEnd(text);
  if (cut < 0 || text.length < 140) return <p><Reason text={text} /></p>;
  return (
    <>
      <p><Reason text={text.slice(0, cut)} /></p>
      <details><summary>more</summary>{text.slice(cut + 2)}</details>
    </>
  );
}

export function nodesOf(...entries: TimelineEntry[]): string {
  const nodes = [...new Set(entries.flatMap((entry) => entry.pods.map((pod) => pod.node)))].filter(Boolean);
  return nodes.slice(0, 4).join(", ") + (nodes.length > 4 ? ` and ${nodes.length - 4} more` : "");
}

/** The record of a decision as it was kept. */
export function Record({ record }: { record: Record<string, unknown> }) {
  const entries = Object.entries(record).filter(([, value]) => value !== null && value !== "" && !(Array.isArray(value) && value.length === 0));
  return (
    <details class="record">
      <summary>Record of the decision</summary>
      <dl>
        {entries.map(([key, value]) => (
          <div key={key}><dt>{key}</dt><dd>{typeof value === "object" ? JSON.stringify(value) : String(value)}</dd></div>
        ))}
      </dl>
    </details>
  );
}
