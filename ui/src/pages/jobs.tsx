// Jobs: who is in line, who runs, and why not.

import type { JobRow, Jobs } from "../api";
import { duration, number, plural } from "../format";
import { Chip, Commands, JobLink, MadeBy, Missing, Panel, PutAside, QueueLink, Reason, Scroll, useSource } from "../parts";
import { address, go, useData, useField, useValue, withQuery } from "../store";

const STATES = ["waiting", "promised", "starting", "growing", "running", "finished"];
const PAGE = 200;

export function JobsPage() {
  const { query } = useValue(address);
  const source = useSource();
  const wanted = new URLSearchParams();
  for (const name of ["q", "queue", "state", "namespace", "offset"]) {
    const value = query.get(name);
    if (value) wanted.set(name, value);
  }
  const jobs = useData<Jobs>(`/api/jobs?${wanted}`);
  const [text, setText] = useField("q", { offset: null });
  const { data } = jobs;
  if (!data) return <Missing of={jobs} what="the jobs" />;
  const state = query.get("state") ?? "";
  const offset = data.offset;
  return (
    <Panel
      title={data.found === data.total ? plural(data.total, "job") : `${number(data.found)} of ${number(data.total)} jobs`}
      aside={
        <>
          <input type="search" placeholder="Name or reason" aria-label="Name or reason" value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <label>
            <span class="unseen">Queue</span>
            <select value={query.get("queue") ?? ""} onChange={(event) => go(withQuery({ queue: event.currentTarget.value, offset: null }))}>
              <option value="">all queues</option>
              {data.queues.map((queue) => <option key={queue} value={queue}>{queue || "no queue"}</option>)}
            </select>
          </label>
          <label>
            <span class="unseen">Namespace</span>
            <select value={query.get("namespace") ?? ""} onChange={(event) => go(withQuery({ namespace: event.currentTarget.value, offset: null }))}>
              <option value="">all namespaces</option>
              {data.namespaces.map((name) => <option key={name} value={name}>{name}</option>)}
            </select>
          </label>
        </>
      }
    >
      <PutAside />
      <div class="chips" role="group" aria-label="State">
        <button type="button" aria-pressed={state === ""} onClick={() => go(withQuery({ state: null, offset: null }))}>all {number(Object.values(data.states).reduce((sum, count) => sum + count, 0))}</button>
        {STATES.filter((known) => data.states[known]).map((known) => (
          <button key={known} type="button" aria-pressed={state.split(",").includes(known)} onClick={() => go(withQuery({ state: state === known ? null : known, offset: null }))}>
            <i class={`light is-${known}`} aria-hidden="true" />
            {known} {number(data.states[known] ?? 0)}
          </button>
        ))}
      </div>
      <Scroll label="Jobs">
        <table class="jobs cards">
          <thead>
            <tr><th class="n" title="Place in the line of all that wait">in line</th><th>job</th><th>state</th><th>queue</th><th>pods</th><th class="n">priority</th><th class="n">waits or runs</th><th>why</th></tr>
          </thead>
          <tbody>{overLast(data.jobs).map((row) => <Row key={row.job} row={row} />)}</tbody>
        </table>
      </Scroll>
      {data.jobs.length === 0 && <p class="muted">{data.total === 0 ? "There is no job." : "No job is like that."}</p>}
      {data.found > PAGE && (
        <p class="pages">
          <button type="button" disabled={offset === 0} onClick={() => go(withQuery({ offset: String(Math.max(0, offset - PAGE)) }))}>‹ before</button>
          {number(offset + 1)} to {number(offset + data.jobs.length)}
          <button type="button" disabled={offset + PAGE >= data.found} onClick={() => go(withQuery({ offset: String(offset + PAGE) }))}>next ›</button>
        </p>
      )}
      <Commands commands={[`muster jobs ${source}`]} api={[`/api/jobs?${wanted}`]} />
    </Panel>
  );
}

/** Whoever looks for what waits or runs does not want to pass by what is over. */
function overLast(rows: JobRow[]): JobRow[] {
  const isOver = (row: JobRow): number => (row.state === "finished" ? 1 : 0);
  return [...rows].sort((a, b) => isOver(a) - isOver(b));
}

/** What the time beside a job tells; pods that run do not always say since when. */
export function sinceWhen(row: JobRow): string {
  if (row.waitsSeconds !== null) return row.waitsSeconds < row.ageSeconds ? "waits again for" : "waits for";
  return row.runningSeconds !== null ? "runs for" : "made before";
}

export function howLong(row: JobRow): string {
  return duration(row.waitsSeconds ?? row.runningSeconds ?? row.ageSeconds);
}

function Row({ row }: { row: JobRow }) {
  return (
    <tr>
      <td class="n" data-label="in line">{row.line && <b title={`${row.line.inQueue}. of its queue: ${row.line.why}`}>{row.line.overall}</b>}</td>
      <td class="wide"><JobLink job={row.job} /><MadeBy row={row} /></td>
      <td><Chip state={row.state} /></td>
      <td data-label="queue"><QueueLink queue={row.queue} /></td>
      <td data-label="pods"><Pods row={row} /></td>
      <td class="n" data-label="priority">{row.priority}</td>
      <td class="n" data-label={sinceWhen(row)} title={`${sinceWhen(row)} ${howLong(row)}`}>{row.state === "finished" ? null : howLong(row)}</td>
      <td class="why" title={row.reason}>
        {row.reason ? <Reason text={row.reason} /> : ""}
        {row.startsInSeconds !== null && row.startsInSeconds > 0 && <span class="muted"> starts in about {duration(row.startsInSeconds)}</span>}
      </td>
    </tr>
  );
}

/** Pods that have a node, against the minimum and all. */
export function Pods({ row }: { row: JobRow }) {
  if (row.placed + row.pending === 0) return <span class="muted">–</span>;
  const all = Math.max(1, row.placed + row.pending, row.minimum);
  return (
    <span class="podbar" title={`${row.placed} have a node, ${row.pending} wait, ${row.minimum} are needed to start`}>
      <span class="track" aria-hidden="true">
        <i style={{ width: `${(100 * row.placed) / all}%` }} />
        {row.minimum < all && <b style={{ left: `${(100 * row.minimum) / all}%` }} />}
      </span>
      {row.placed}/{row.placed + row.pending}
    </span>
  );
}
