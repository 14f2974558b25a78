// Queues: the tree with what each was promised, may have and holds; loans; who took from whom; all of it over time.

import { useMemo } from "preact/hooks";
import type { QueueAmounts, QueueRow, Queues, Series, Unit } from "../api";
import { Chart } from "../Chart";
import { amount, duration, moment, plural, resourceWord } from "../format";
import { hue, theme } from "../paint";
import { Commands, Dot, JobLink, Link, Missing, Panel, When } from "../parts";
import { address, go, linkTo, status, useData, useValue, withQuery } from "../store";

export function QueuesPage() {
  const { query } = useValue(address);
  const feed = useValue(status);
  const queues = useData<Queues>("/api/queues");
  const { data } = queues;
  const resource = query.get("of") ?? (data ? scarce(data) : "cpu");
  const series = useData<Series>(data ? `/api/queues/series?resource=${encodeURIComponent(resource)}` : null);
  if (!data) return <Missing of={queues} what="the queues" />;
  const chosen = query.get("queue");
  const unit = data.units[resource] ?? "count";
  const rows = ordered(data.queues);
  const most = Math.max(1, ...rows.map(({ queue }) => reach(queue.amounts[resource])), ...rows.map(({ queue }) => queue.amounts[resource]?.asked ?? 0));
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
        <div class="scroll">
          <table class="tree">
            <thead>
              <tr>
                <th>queue</th><th>{resourceWord(resource)}: held, and asked for</th><th class="n">held</th><th class="n">fair share</th><th class="n">quota</th><th class="n">limit</th><th class="n">weight</th><th class="n">run</th><th class="n">wait</th><th>most wait because</th>
              </tr>
            </thead>
            <tbody>
              {rows.map(({ queue, depth }) => (
                <Row key={queue.name} queue={queue} depth={depth} resource={resource} unit={unit} most={most} isChosen={queue.name === chosen} />
              ))}
            </tbody>
          </table>
        </div>
        <p class="legend">
          <span><i class="key is-held" />held</span>
          <span><i class="key is-over" />held beyond the fair share</span>
          <span><i class="key is-asked" />asked for by pods that wait</span>
          <span><i class="key is-share" />fair share</span>
          <span><i class="key is-quota" />quota</span>
          <span><i class="key is-limit" />limit</span>
        </p>
        {data.missing.map((missing) => (
          <p key={missing.queue} class="warn">{plural(missing.jobs, "job")} name{missing.jobs === 1 ? "s" : ""} the queue <b>{missing.queue}</b>, which does not exist.</p>
        ))}
        <Commands commands={[`muster queue show ${feed?.live ? "--cluster" : (feed?.words ?? "")}`]} />
      </Panel>
      {one && <OneQueue queue={one} resource={resource} unit={unit} />}
      <div class="columns">
        <Panel title="Over time">
          {series.data && series.data.cycle.length > 1 ? <OverTime series={series.data} chosen={chosen} /> : <p class="muted">One cycle is no line yet.</p>}
        </Panel>
        <div>
          <Panel title="Who borrows from whom">
            {data.loans.length === 0 && <p class="muted">Nobody holds what another was promised.</p>}
            <ul class="flows">
              {data.loans.map((loan) => (
                <li key={loan.borrower + loan.lender + loan.resource}>
                  <Name queue={loan.lender} /> <span class="arrow" aria-label="lends to">→</span> <Name queue={loan.borrower} />
                  <b>{amount(loan.base, loan.unit)} {resourceWord(loan.resource)}</b>
                </li>
              ))}
            </ul>
          </Panel>
          <Panel title="Who took from whom">
            {data.takings.length === 0 && <p class="muted">Nobody was evicted so far.</p>}
            <ul class="flows">
              {data.takings.map((taking) => (
                <li key={taking.from + taking.to}>
                  <div>
                    <Name queue={taking.from} /> <span class="arrow is-evict" aria-label="gave to">→</span> <Name queue={taking.to} />
                    <b>{plural(taking.pods, "pod")}</b>
                  </div>
                  <p class="muted">
                    <JobLink job={taking.jobs[0] ?? ""} />{taking.jobs.length > 1 && ` and ${taking.jobs.length - 1} more`} for <JobLink job={taking.for[0] ?? ""} />{taking.for.length > 1 && ` and ${taking.for.length - 1} more`}, last{" "}
                    <Link href={linkTo("/decisions", { cycle: String(taking.cycle) })}><When time={taking.time} /></Link>: {taking.why}
                  </p>
                </li>
              ))}
            </ul>
          </Panel>
        </div>
      </div>
    </div>
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

function Row(props: { queue: QueueRow; depth: number; resource: string; unit: Unit; most: number; isChosen: boolean }) {
  const { queue, depth, resource, unit, most, isChosen } = props;
  const part = queue.amounts[resource] ?? { quota: null, limit: null, fairShare: null, held: 0, asked: 0 };
  const reason = queue.reasons[0];
  return (
    <tr class={isChosen ? "chosen" : ""}>
      <td class={`depth-${Math.min(depth, 6)}`}>
        <Link href={withQuery({ queue: isChosen ? null : queue.name })} class="name"><Dot name={queue.name} />{queue.name}</Link>
        {!queue.open && <span class="chip">closed</span>}
        {queue.fault && <span class="chip is-bad" title={queue.fault}>fault</span>}
      </td>
      <td><Bar part={part} most={most} /></td>
      <td class="n"><b>{amount(part.held, unit)}</b></td>
      <td class="n">{shown(part.fairShare, unit)}</td>
      <td class="n">{shown(part.quota, unit)}</td>
      <td class="n">{shown(part.limit, unit)}</td>
      <td class="n">{queue.resources[resource]?.weight ?? "–"}</td>
      <td class="n">{queue.jobs.running}</td>
      <td class="n">{queue.jobs.waiting > 0 ? <Link href={linkTo("/jobs", { queue: queue.name, state: "waiting" })}>{queue.jobs.waiting}</Link> : 0}</td>
      <td class="why">{reason && <span title={reason.text}><code class="code">{reason.code}</code> {reason.text}</span>}</td>
    </tr>
  );
}

function Bar({ part, most }: { part: QueueAmounts; most: number }) {
  const width = (value: number): string => `${Math.min(100, (100 * value) / most)}%`;
  const share = part.fairShare;
  const within = share === null ? part.held : Math.min(part.held, share);
  return (
    <span class="quota" role="img" aria-label={`held ${percentOf(part.held, most)} of the longest bar`}>
      <i class="is-asked" style={{ width: width(part.asked) }} />
      <i class="is-over" style={{ width: width(part.held) }} />
      <i class="is-held" style={{ width: width(within) }} />
      {share !== null && <b class="is-share" style={{ left: width(share) }} />}
      {part.quota !== null && part.quota >= 0 && <b class="is-quota" style={{ left: width(part.quota) }} />}
      {part.limit !== null && part.limit >= 0 && <b class="is-limit" style={{ left: width(part.limit) }} />}
    </span>
  );
}

function percentOf(value: number, most: number): string {
  return `${Math.round((100 * value) / most)} %`;
}

function OneQueue({ queue, resource, unit }: { queue: QueueRow; resource: string; unit: Unit }) {
  const part = queue.amounts[resource];
  const over = part && part.fairShare !== null ? part.held - part.fairShare : null;
  return (
    <Panel title={<Name queue={queue.name} />} aside={<Link href={withQuery({ queue: null })} class="button" aria-label="Close">✕</Link>}>
      <dl class="facts">
        {queue.parent && <div><dt>below</dt><dd>{queue.parent}</dd></div>}
        <div><dt>priority</dt><dd>{queue.priority}</dd></div>
        {over !== null && <div><dt>{over > 0 ? "above its share" : "below its share"}</dt><dd>{amount(Math.abs(over), unit)} {resourceWord(resource)}</dd></div>}
        <div><dt>others may take back</dt><dd>{queue.reclaimable ? "yes" : "no"}</dd></div>
        {queue.preemptMinRuntime !== null && <div><dt>kept from its own jobs for</dt><dd>{duration(queue.preemptMinRuntime)}</dd></div>}
        {queue.reclaimMinRuntime !== null && <div><dt>kept from other queues for</dt><dd>{duration(queue.reclaimMinRuntime)}</dd></div>}
        <div><dt>pods that wait</dt><dd>{queue.jobs.pendingPods}</dd></div>
      </dl>
      {queue.fault && <p class="warn">{queue.fault}</p>}
      {queue.reasons.length > 0 && (
        <ul class="plain">
          {queue.reasons.map((reason) => <li key={reason.code}>{plural(reason.jobs, "job")}: <code class="code">{reason.code}</code> {reason.text}</li>)}
        </ul>
      )}
      <p>
        <Link href={linkTo("/jobs", { queue: queue.name })}>its jobs</Link> · <Link href={linkTo("/cluster", { by: "queue", queue: queue.name })}>on the map</Link>
      </p>
    </Panel>
  );
}

const MOST_LINES = 8;

function OverTime({ series, chosen }: { series: Series; chosen: string | null }) {
  const feed = useValue(status);
  const lines = useMemo(() => {
    const colours = theme();
    const names = Object.keys(series.queues)
      .filter((name) => !chosen || name === chosen)
      .filter((name) => series.queues[name]?.held.some((value) => value > 0) || name === chosen)
      .sort((a, b) => Math.max(...(series.queues[b]?.held ?? [0])) - Math.max(...(series.queues[a]?.held ?? [0])))
      .slice(0, MOST_LINES);
    return names.flatMap((name) => {
      const colour = colours.hues[hue(name)] as string;
      const queue = series.queues[name] as Series["queues"][string];
      const held = { label: name, values: queue.held, colour };
      const hasShare = queue.fairShare.some((value) => value !== null);
      return hasShare ? [held, { label: `${name}: share`, values: queue.fairShare, colour, dashed: true }] : [held];
    });
  }, [series, chosen]);
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
