// Queues: the tree with what each was promised, may have and holds; loans; who took from whom; all of it over time.

import { useMemo } from "preact/hooks";
import type { QueueAmounts, QueueRow, Queues, Series, Unit } from "../api";
import { Chart } from "../Chart";
import { Flow } from "../Flow";
import { Lanes } from "../Lanes";
import { amount, amountOf, duration, moment, number, plural, reasonText, resourceWord } from "../format";
import { hue, theme } from "../paint";
import { Commands, Dot, Few, JobLink, Link, Missing, Panel, Scroll, SinceBegin, useIntoView, useSource, When } from "../parts";
import { address, go, linkTo, status, useData, useValue, withQuery } from "../store";

export function QueuesPage() {
  const { query } = useValue(address);
  const source = useSource();
  const queues = useData<Queues>("/api/queues");
  const { data } = queues;
  const resource = query.get("of") ?? (data ? scarce(data) : "cpu");
  const series = useData<Series>(data ? `/api/queues/series?resource=${encodeURIComponent(resource)}` : null);
  if (!data) return <Missing of={queues} what="the queues" />;
  const chosen = query.get("queue");
  const unit = data.units[resource] ?? "count";
  const rows = ordered(withSums(data.queues));
  const most = Math.max(1, ...rows.map(({ queue }) => reach(queue.amounts[resource])), ...rows.map(({ queue }) => queue.amounts[resource]?.asked ?? 0));
  const above = new Set(data.queues.map((queue) => queue.parent));
  const one = data.queues.find((queue) => queue.name === chosen);
  return (
    <div class="queues">
      <Panel
        title={plural(data.queues.length, "queue")}
        aside={
          <label>
            <span class="unseen">Resource</span>
            <select value={resource} onChange={(event) => go(withQuery({ of: event.currentTarget.value }))}>
              {Object.keys(data.units).filter((name) => name !== "pods").map((name) => <option key={name} value={name}>{resourceWord(name)}</option>)}
            </select>
          </label>
        }
      >
        <Scroll label="Queues">
          <table class="tree cards">
            <thead>
              <tr>
                <th>queue</th><th>{resourceWord(resource)}: held, and asked for</th><th class="n">held</th><th class="n">asks for</th><th class="n">fair share</th><th class="n">quota</th><th class="n">limit</th><th class="n">weight</th><th class="n">jobs run</th><th class="n">jobs wait</th><th class="n">pods wait</th><th>most wait because</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ queue, depth }) => (
                <Row key={queue.name} queue={queue} isAbove={above.has(queue.name)} depth={depth} resource={resource} unit={unit} most={most} isChosen={queue.name === chosen} />
              ))}
            </tbody>
          </table>
        </Scroll>
        <p class="legend">
          <span><i class="key is-held" />held</span>
          <span><i class="key is-over" />held beyond the fair share</span>
          <span><i class="key is-asked" />asked for by pods that wait</span>
          <span><i class="key is-share" />fair share</span>
          <span><i class="key is-quota" />quota</span>
          <span><i class="key is-limit" />limit</span>
        </p>
        <p class="muted">Quota is what a queue was promised; its fair share is what it may have now, and changes with what others ask for. Held counts pods to which nodes are promised, and no pods that leave.</p>
        {data.missing.map((missing) => (
          <p key={missing.queue} class="warn">{plural(missing.jobs, "job")} name{missing.jobs === 1 ? "s" : ""} the queue <b>{missing.queue}</b>, which does not exist.</p>
        ))}
        <Commands commands={[`muster queue show ${source}`]} api={["/api/queues", `/api/queues/series?resource=${encodeURIComponent(resource)}`]} />
      </Panel>
      {chosen && !one && <p class="notice" role="status">There is no queue {chosen}. <Link href={withQuery({ queue: null })}>Show all queues</Link></p>}
      {one && <OneQueue queue={one} resource={resource} unit={unit} />}
      <div class="columns">
        <div>
          <Panel title={`${resourceWord(resource)} held, over time`}>
            {series.data && series.data.cycle.length > 1 ? <OverTime series={series.data} chosen={one ? chosen : null} above={above} /> : <p class="muted">One cycle is no line yet.</p>}
          </Panel>
          {series.data && series.data.loans.length > 0 && (
            <Panel title={`${resourceWord(resource)} on loan, over time`}><Lent series={series.data} chosen={one ? chosen : null} /></Panel>
          )}
        </div>
        <div>
          <Loans data={data} resource={resource} unit={unit} />
          <Takings data={data} series={series.data} />
        </div>
      </div>
    </div>
  );
}

function Loans({ data, resource, unit }: { data: Queues; resource: string; unit: Unit }) {
  const here = data.loans.filter((loan) => loan.resource === resource);
  const others = [...new Set(data.loans.filter((loan) => loan.resource !== resource).map((loan) => resourceWord(loan.resource)))];
  const amounts = (name: string, total: number) => (
    <>
      <Name queue={name} />
      <span class="muted">{amountOf(total, unit, resource)}</span>
    </>
  );
  return (
    <Panel title={`Who borrows ${resourceWord(resource)} from whom`}>
      {here.length > 0 ? (
        <>
          <Flow streams={here.map((loan) => ({ from: loan.lender, to: loan.borrower, amount: loan.base }))} heads={["lends", "borrows"]} of="queue" amount={(total) => amountOf(total, unit, resource)} giver={amounts} taker={amounts} />
          <p class="muted">A queue borrows what another was promised (its quota) and does not use now. It is taken back for jobs that fit into what is left of the share of their own queue.</p>
        </>
      ) : (
        <p class="muted">{data.queues.some((queue) => (queue.amounts[resource]?.quota ?? 0) > 0) ? "" : `No queue was promised ${resourceWord(resource)} (a quota), so there is nothing to lend; the table has who holds more than its fair share. `}Nobody holds {resourceWord(resource)} of another queue&apos;s quota{others.length ? `; of ${others.join(", ")} somebody does` : ""}.</p>
      )}
    </Panel>
  );
}

/** Of more pairs of queues than these, those that exchanged least are told to who asks. */
const MOST_TAKINGS = 8;

function Takings({ data, series }: { data: Queues; series: Series | null }) {
  if (data.takings.length === 0) return <Panel title="Who took from whom"><p class="muted">Nobody was evicted<SinceBegin or=" so far" />.</p></Panel>;
  const pair = (one: { from: string; to: string }): string => `${one.from}\0${one.to}`;
  const most = new Set(data.takings.slice(0, MOST_TAKINGS).map(pair));
  const isFirst = (one: { from: string; to: string }): boolean => most.has(pair(one));
  const lanes = (happenings: Series["takings"]) => <Lanes happenings={happenings} first={series?.time[0] ?? 0} last={series?.time.at(-1) ?? 0} />;
  return (
    <Panel title="Who took from whom">
      <Flow
        streams={data.takings.map((taking) => ({ from: taking.from, to: taking.to, amount: taking.pods }))}
        heads={["gave way", "for"]}
        of="queue"
        amount={(total) => plural(total, "pod")}
        giver={(name, total) => <><Name queue={name} /><span class="muted">{plural(total, "pod")} left</span></>}
        taker={(name, total) => <><Name queue={name} /><span class="muted">{plural(total, "pod")} left for it</span></>}
      />
      {series && series.takings.length > 0 && (
        <>
          <h3>When</h3>
          {lanes(series.takings.filter(isFirst))}
          {most.size < data.takings.length && <details><summary>{number(data.takings.length - most.size)} more</summary>{lanes(series.takings.filter((one) => !isFirst(one)))}</details>}
        </>
      )}
      <h3>For which jobs</h3>
      <Few
        of={data.takings}
        shown={MOST_TAKINGS}
        one={(taking) => (
          <li key={taking.from + taking.to}>
            <JobLink job={taking.jobs[0] ?? ""} dot={false} />{taking.jobs.length > 1 && ` and ${taking.jobs.length - 1} more`} for <JobLink job={taking.for[0] ?? ""} dot={false} />{taking.for.length > 1 && ` and ${taking.for.length - 1} more`}, last{" "}
            <Link href={linkTo("/decisions", { cycle: String(taking.cycle) })}><When time={taking.time} /></Link>: <span class="muted">{taking.why}</span>
          </li>
        )}
      />
    </Panel>
  );
}

/** What each queue holds of another's quota, pair by pair. */
function Lent({ series, chosen }: { series: Series; chosen: string | null }) {
  const feed = useValue(status);
  const lines = useMemo(() => {
    const colours = theme();
    return series.loans
      .filter((loan) => !chosen || loan.lender === chosen || loan.borrower === chosen)
      .slice(0, MOST_LINES)
      .map((loan) => ({ label: `${loan.lender} → ${loan.borrower}`, values: loan.amount, colour: colours.hues[hue(loan.borrower)] as string }));
  }, [series, chosen]);
  return (
    <Chart
      x={series.time}
      lines={lines}
      stepped
      height={180}
      format={(value) => amount(value, series.unit)}
      xFormat={(value) => (feed ? moment(value, feed.start, feed.live) : "")}
      label={`${resourceWord(series.resource)} on loan over ${series.cycle.length} cycles: ${lines.map((line) => line.label).join(", ")}`}
    />
  );
}

function Name({ queue }: { queue: string }) {
  return <span class="name"><Dot name={queue} />{queue || "no queue"}</span>;
}

function scarce(data: Queues): string {
  const names = Object.keys(data.units);
  return names.find((name) => name.endsWith("/gpu")) ?? names.find((name) => name.includes("/")) ?? "cpu";
}

function reach(part: QueueAmounts | undefined): number {
  if (!part) return 0;
  return Math.max(part.held, part.fairShare ?? 0, part.quota ?? 0, part.limit ?? 0);
}

/** Amounts of a queue count what is below it; so do its jobs here. */
function withSums(queues: QueueRow[]): QueueRow[] {
  const known = new Map(queues.map((queue) => [queue.name, { ...queue, jobs: { ...queue.jobs } }]));
  for (const queue of queues) {
    const seen = new Set([queue.name]);
    for (let above = known.get(queue.parent); above && !seen.has(above.name); above = known.get(above.parent)) {
      seen.add(above.name);
      above.jobs.running += queue.jobs.running;
      above.jobs.waiting += queue.jobs.waiting;
      above.jobs.pendingPods += queue.jobs.pendingPods;
    }
  }
  return [...known.values()];
}

/** Parents before what is below them. */
function ordered(queues: QueueRow[]): { queue: QueueRow; depth: number }[] {
  const names = new Set(queues.map((queue) => queue.name));
  const below = new Map<string, QueueRow[]>();
  const tops: QueueRow[] = [];
  for (const queue of queues) {
    if (queue.parent && names.has(queue.parent) && !queue.fault) below.set(queue.parent, [...(below.get(queue.parent) ?? []), queue]);
    else tops.push(queue);
  }
  const found: { queue: QueueRow; depth: number }[] = [];
  const walk = (queue: QueueRow, depth: number): void => {
    if (depth > 100) return;
    found.push({ queue, depth });
    for (const inner of below.get(queue.name) ?? []) walk(inner, depth + 1);
  };
  for (const top of tops) walk(top, 0);
  return found;
}

function shown(value: number | null, unit: Unit): string {
  return value === null ? "–" : value < 0 ? "no end" : amount(value, unit);
}

function Row(props: { queue: QueueRow; isAbove: boolean; depth: number; resource: string; unit: Unit; most: number; isChosen: boolean }) {
  const { queue, isAbove, depth, resource, unit, most, isChosen } = props;
  const part = queue.amounts[resource] ?? { quota: null, limit: null, fairShare: null, held: 0, asked: 0 };
  const reason = queue.reasons[0];
  return (
    <tr class={isChosen ? "chosen" : ""}>
      <td class={`wide depth-${Math.min(depth, 6)}`}>
        <Link href={withQuery({ queue: isChosen ? null : queue.name })} class="name"><Dot name={queue.name} />{queue.name}</Link>
        {!queue.open && <span class="chip">closed</span>}
        {queue.fault && <span class="chip is-bad">fault</span>}
      </td>
      <td class="wide"><Bar part={part} unit={unit} resource={resource} most={most} /></td>
      <td class="n" data-label="held"><b>{amount(part.held, unit)}</b></td>
      <td class="n" data-label="asks for">{amount(part.asked, unit)}</td>
      <td class="n" data-label="fair share">{shown(part.fairShare, unit)}</td>
      <td class="n" data-label="quota">{shown(part.quota, unit)}</td>
      <td class="n" data-label="limit">{shown(part.limit, unit)}</td>
      <td class="n" data-label="weight">{queue.resources[resource]?.weight ?? "–"}</td>
      <td class="n" data-label="jobs run">{number(queue.jobs.running)}</td>
      <td class="n" data-label="jobs wait">{queue.jobs.waiting > 0 && !isAbove ? <Link href={linkTo("/jobs", { queue: queue.name, state: "waiting" })}>{number(queue.jobs.waiting)}</Link> : number(queue.jobs.waiting)}</td>
      <td class="n" data-label="pods wait">{number(queue.jobs.pendingPods)}</td>
      <td class="why">
        {queue.fault && <p class="bad">{queue.fault}</p>}
        {reason && <span><code class="code">{reason.code}</code> {reasonText(reason.text)}</span>}
      </td>
    </tr>
  );
}

function Bar({ part, most, unit, resource }: { part: QueueAmounts; most: number; unit: Unit; resource: string }) {
  const width = (value: number): string => `${Math.min(100, (100 * value) / most)}%`;
  const share = part.fairShare;
  const within = share === null ? part.held : Math.min(part.held, share);
  const waiting = part.asked - part.held;
  const said = [`holds ${amountOf(part.held, unit, resource)}`, waiting > 0 ? `asks for ${amount(waiting, unit)} more` : ""];
  return (
    <span class="quota" role="img" aria-label={said.filter(Boolean).join(", ")} title={said.filter(Boolean).join(", ")}>
      <i class="is-asked" style={{ width: width(part.asked) }} />
      <i class="is-over" style={{ width: width(part.held) }} />
      <i class="is-held" style={{ width: width(within) }} />
      {share !== null && <b class="is-share" style={{ left: width(share) }} />}
      {part.quota !== null && part.quota >= 0 && <b class="is-quota" style={{ left: width(part.quota) }} />}
      {part.limit !== null && part.limit >= 0 && <b class="is-limit" style={{ left: width(part.limit) }} />}
    </span>
  );
}

function OneQueue({ queue, resource, unit }: { queue: QueueRow; resource: string; unit: Unit }) {
  const part = queue.amounts[resource];
  const place = useIntoView(queue.name);
  const over = part && part.fairShare !== null ? part.held - part.fairShare : null;
  return (
    <Panel place={place} title={<Name queue={queue.name} />} aside={<Link href={withQuery({ queue: null })} class="button" aria-label="Close">✕</Link>}>
      <dl class="facts">
        {queue.parent && <div><dt>below</dt><dd>{queue.parent}</dd></div>}
        <div><dt>priority</dt><dd>{queue.priority}</dd></div>
        {over !== null && <div><dt>{over > 0 ? "above its share" : "below its share"}</dt><dd>{amountOf(Math.abs(over), unit, resource)}</dd></div>}
        <div><dt>others may take back</dt><dd>{queue.reclaimable ? "yes" : "no"}</dd></div>
        {queue.preemptMinRuntime !== null && <div><dt>kept from its own jobs for</dt><dd>{duration(queue.preemptMinRuntime)}</dd></div>}
        {queue.reclaimMinRuntime !== null && <div><dt>kept from other queues for</dt><dd>{duration(queue.reclaimMinRuntime)}</dd></div>}
      </dl>
      {queue.fault && <p class="warn">{queue.fault}</p>}
      {queue.reasons.length > 0 && (
        <ul class="plain">
          {queue.reasons.map((reason) => <li key={reason.code}>{plural(reason.jobs, "job")}: <code class="code">{reason.code}</code> {reasonText(reason.text)}</li>)}
        </ul>
      )}
      <p>
        <Link href={linkTo("/jobs", { queue: queue.name })}>its jobs</Link> · <Link href={linkTo("/cluster", { by: "queue", queue: queue.name })}>on the map</Link>
      </p>
    </Panel>
  );
}

const MOST_LINES = 8;

/** Of queues that have others below them nothing is drawn unless they are chosen: it would be the sum of those. */
function OverTime({ series, chosen, above }: { series: Series; chosen: string | null; above: ReadonlySet<string> }) {
  const feed = useValue(status);
  const lines = useMemo(() => {
    const colours = theme();
    const names = Object.keys(series.queues)
      .filter((name) => (chosen ? name === chosen : !above.has(name)))
      .filter((name) => series.queues[name]?.held.some((value) => value > 0) || name === chosen)
      .sort((a, b) => Math.max(...(series.queues[b]?.held ?? [0])) - Math.max(...(series.queues[a]?.held ?? [0])))
      .slice(0, MOST_LINES);
    return names.flatMap((name) => {
      const colour = colours.hues[hue(name)] as string;
      const queue = series.queues[name] as Series["queues"][string];
      const held = { label: name, values: queue.held, colour };
      const hasShare = queue.fairShare.some((value) => value !== null);
      return hasShare ? [held, { label: `${name}, fair share`, values: queue.fairShare, colour, dashed: true }] : [held];
    });
  }, [series, chosen]);
  if (!lines.length) return <p class="muted">Nobody has held any.</p>;
  return (
    <Chart
      x={series.time}
      lines={lines}
      stepped
      height={260}
      format={(value) => amount(value, series.unit)}
      xFormat={(value) => (feed ? moment(value, feed.start, feed.live) : "")}
      label={`What queues held of ${resourceWord(series.resource)} over ${series.cycle.length} cycles; dashed: their fair shares`}
    />
  );
}
