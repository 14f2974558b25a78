// The three questions of a job's page: why it waits, who has its place, and what would let it start.

import type { Config, Explanation, JobPage as Page, Remedies } from "./api";
import { actionWord, amountsText, duration, lacksText, neat, nodesSay, number, plainBounds, plural, resourceWord, sentence } from "./format";
import { JobLink, Link, NodeLink, Panel, Reason, SinceBegin, When } from "./parts";
import { askAll } from "./pages/whatif";
import { linkTo, useData } from "./store";
import { nodesOf } from "./Timeline";

export function Why({ page }: { page: Page }) {
  const { explanation: said, text } = page;
  const { reason } = page.row;
  // Where room is not the trouble, the words say nothing about it.
  const isAboutRoom = text.some((line) => line.startsWith("  needs"));
  const lacks = isAboutRoom ? said.needs.filter((need) => need.missing !== "0") : [];
  const nodes = Object.entries(said.nodes.byReason);
  // A queue that is below its share may be kept from taking back all the same: by how much one gang asks for.
  const share = page.othersHold && /reclaim: (its queue would have more than its fair share[^;]*)/.exec(said.noEvictions)?.[1];
  const isOneOfMany = said.task !== "" && Object.values(said.tasks).reduce((sum, count) => sum + count, 0) > 1;
  return (
    <Panel title={said.state === "growing" ? "Why does it not grow?" : "Why does it wait?"} class="warn">
      <p class="reason"><Reason text={reason || `${said.reason.code}: ${said.reason.text}`} /></p>
      {share && <p class="after">With this job, {plainBounds(share)}. So nobody of another queue is evicted for it.</p>}
      {said.roles.length > 0 && <p class="after">Roles that have a minimum: {said.roles.map((role) => `${role.name} ${role.ready} of ${role.minimum}`).join(", ")}</p>}
      {lacks.length > 0 && (
        <table class="after">
          <thead><tr><th>it lacks</th><th class="n">needed</th><th class="n">free where it may run</th><th class="n">missing</th></tr></thead>
          <tbody>
            {lacks.map((need) => (
              <tr key={need.resource}><td>{resourceWord(need.resource)}</td><td class="n">{neat(need.needed)}</td><td class="n">{neat(need.free)}</td><td class="n"><b>{neat(need.missing)}</b></td></tr>
            ))}
          </tbody>
        </table>
      )}
      {nodes.length > 0 && (
        <>
          <h3>What {said.nodes.total === 1 ? "the only node says" : `${plural(said.nodes.total, "node")} say`}{isOneOfMany && <> of {shortPod(said.task)}</>}</h3>
          {isOneOfMany && amountsText(said.request) && <p class="muted">It asks for {amountsText(said.request)}.</p>}
          <ul class="bars">
            {nodes.map(([code, count]) => {
              const groups = said.nodes.groups.filter((known) => known.reason === code);
              const named = groups.flatMap((group) => group.examples).sort().slice(0, 3);
              return (
                <li key={code}>
                  <span class="count">{number(count)}</span>
                  <span>{code === "fits" ? "could take one pod" : nodesSay(count, groups[0]?.text ?? code)}{code === SHORT && shortText(said.nodes.shortOf, count)} <span class="muted">({named.join(", ")}{count > named.length ? `, ${number(count - named.length)} more` : ""})</span></span>
                  <span class="track" aria-hidden="true"><i style={{ width: `${(100 * count) / said.nodes.total}%` }} /></span>
                </li>
              );
            })}
          </ul>
          {said.nodes.closest && (
            <p class="after">Closest: <NodeLink node={said.nodes.closest.name} />, which {lacksText(said.nodes.closest.lacks)}</p>
          )}
        </>
      )}
    </Panel>
  );
}

/** The code of nodes that only lack room. */
const SHORT = "insufficient-resources";

/** What so many nodes are short of: ": GPUs on 129, CPUs on 6", or of one thing only its name. */
function shortText(shortOf: Record<string, number>, count: number): string {
  const parts = Object.entries(shortOf).map(([resource, nodes]) => resourceWord(resource) + (nodes === count ? "" : ` on ${number(nodes)}`));
  return parts.length ? `: ${parts.join(", ")}` : "";
}

const SHOWN_EVICTIONS = 2;
const SHOWN_HOLDERS = 6;

/** For whom its pods left, who holds what it lacks, and why nobody leaves for it. */
export function Place({ page }: { page: Page }) {
  const { explanation: said, row } = page;
  const evictions = page.timeline.filter((entry) => entry.kind === "evict");
  const lost = evictions.slice(-SHOWN_EVICTIONS).reverse();
  const came = new Map(page.came.map((each) => [each.job, each]));
  const ahead = row.line && row.line.overall > 1;
  const isNobody = !lost.length && !said.holders.length && !ahead && !said.noEvictions && !Object.keys(said.heldByOthers).length;
  return (
    <Panel title="Who has its place?">
      {lost.map((entry) => (
        <p key={entry.cycle} class="lost">
          {plural(entry.pods.length, "pod")} of it {entry.pods.length === 1 ? "was" : "were"} evicted from {nodesOf(entry)}{" "}
          {entry.beneficiary ? <>for <JobLink job={entry.beneficiary} /></> : "since its gang was broken"}{" "}
          <Link href={linkTo("/decisions", { cycle: String(entry.cycle) })}><When time={entry.time} /></Link>
          {entry.balance && <span class="muted own"> {sentence(entry.balance)}</span>}
        </p>
      ))}
      {evictions.length > lost.length && <p class="muted">These are the last {lost.length} of {evictions.length} times; the others stand below.</p>}
      <Holders title="Who got what it lacks while it waited" of={said.holders.filter((holder) => came.has(holder.job))} came={came} />
      <Holders title={came.size > 0 ? "Who held it before" : "Who holds what it lacks"} of={said.holders.filter((holder) => !came.has(holder.job))} came={came} />
      {Object.keys(said.heldByOthers).length > 0 && <p>Pods of other schedulers hold {amountsText(said.heldByOthers)}.</p>}
      {row.line && row.line.overall > 1 && <p class="after">{aheadText(row.line)}</p>}
      {isNobody && <p class="muted">Nobody: no other job holds what it lacks, and none of its pods was evicted<SinceBegin />.</p>}
      {said.noEvictions && (
        <>
          <h3>Why nobody is evicted for it</h3>
          <ul class="plain">
            {whyNobodyLeaves(page).map((line) => {
              const cut = /^([a-z]+): (.*)$/s.exec(line);
              return <li key={line}>{cut ? <><b>{actionWord(cut[1] ?? "")}</b> <code class="code">{cut[1]}</code>: {plainBounds(cut[2] ?? "")}</> : sentence(plainBounds(line))}</li>;
            })}
          </ul>
          <Keepers of={said.noEvictions} />
        </>
      )}
    </Panel>
  );
}

/** What each action ran into; of other queues nothing is said where they hold nothing. */
function whyNobodyLeaves({ explanation: said, othersHold }: Page): string[] {
  const lines = said.noEvictions.split("; ").filter((line) => othersHold || !/^[a-z]*reclaim: /.test(line));
  // Whoever is kept from leaving would be named.
  return lines.map((line) => line.replace(/^([a-z]*preempt): nobody may be evicted for it$/, "$1: nobody in its queue who holds nodes has a lower priority"));
}

/** What the rules are about that keep pods where they are. */
function Keepers({ of: text }: { of: string }) {
  const names = [...new Set([...text.matchAll(/kept by ([a-z-]+)/g)].map((found) => found[1] as string))];
  const { data } = useData<Config>(names.length ? "/api/config" : null, false);
  return (
    <>
      {names.filter((name) => data?.summaries[name]).map((name) => (
        <p key={name} class="after muted"><code class="code">{name}</code> is a rule of this scheduler: {data?.summaries[name]}</p>
      ))}
    </>
  );
}

/** Who waits before it in line, and why. */
function aheadText({ overall, inQueue, why }: { overall: number; inQueue: number; why: string }): string {
  const [before, verb] = [plural(overall - 1, "job"), overall === 2 ? "comes" : "come"];
  if (inQueue === 1) return `In its queue it is first in line; ${before} of other queues ${verb} before it.`;
  return `${before} that wait${overall === 2 ? "s" : ""} ${verb} before it in line (${why}).`;
}

function Holders({ title, of, came }: { title: string; of: Explanation["holders"]; came: Map<string, Page["came"][number]> }) {
  if (of.length === 0) return null;
  const list = (part: Explanation["holders"]) => (
    <ul class="amounts">
      {part.map((holder) => {
        const since = came.get(holder.job);
        return (
          <li key={holder.job + holder.resource}>
            <JobLink job={holder.job} />
            {since && <Link href={linkTo("/decisions", { cycle: String(since.cycle) })} class="quiet">since <When time={since.time} /></Link>}
            <span>{neat(holder.amount)} {resourceWord(holder.resource, holder.amount === "1")}</span>
          </li>
        );
      })}
    </ul>
  );
  return (
    <>
      <h3>{title}</h3>
      {list(of.slice(0, SHOWN_HOLDERS))}
      {of.length > SHOWN_HOLDERS && <details><summary>{of.length - SHOWN_HOLDERS} more</summary>{list(of.slice(SHOWN_HOLDERS))}</details>}
    </>
  );
}

export function Help({ said, remedies, isLeaving }: { said: Explanation; remedies: { data: Remedies | null; error: Error | null }; isLeaving: boolean }) {
  const { data, error } = remedies;
  const start = data?.expectedStart;
  return (
    <Panel title={said.state === "growing" ? "What would let it grow?" : "What would let it start?"} class="good">
      {!data && !error && <p class="muted" role="status">Trying what could help, on a copy …</p>}
      {!data && error && <p class="muted">What could help was not tried: {error.message}</p>}
      <ol class="advice">
        {(data ? data.advice : error ? said.advice.map((text) => ({ text, changes: [] })) : []).map(({ text, changes }) => (
          <li key={text}>
            {text} {changes.length > 0 && <Link href={askAll(changes, said.job)} class="try">try it, and see what else it changes</Link>}
          </li>
        ))}
      </ol>
      {data && data.advice.length === 0 && <p>Nothing that was tried lets it {said.state === "growing" ? "grow" : "start"}.</p>}
      {isLeaving && <p>Its pods were told to leave and are still going. What it lacks shows once they are gone and made anew.</p>}
      {data && data.advice.length === 0 && data.untried.length === 0 && said.reason.remedy && !isLeaving && <p>What the reason asks for: {said.reason.remedy}.</p>}
      {data && data.advice.length > 0 && <p class="after muted">{data.advice.length > 1 ? "Any one of these is enough; each" : "It"} was tried on a copy of cycle {data.cycle}.</p>}
      {data && data.untried.length > 0 && (
        <>
          <h3>Could help, and was not tried</h3>
          <ul class="plain">{data.untried.map((text) => <li key={text}>{text}</li>)}</ul>
        </>
      )}
      {start && (
        <>
          <h3>When it starts by itself</h3>
          <p>{start.inSeconds === null ? `not known: ${start.text}` : `in about ${duration(start.inSeconds)}${start.text ? `: ${start.text}` : ""}`}</p>
        </>
      )}
    </Panel>
  );
}

function shortPod(pod: string): string {
  return pod.slice(pod.indexOf("/") + 1);
}
