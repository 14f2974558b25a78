// Lab: replays of traces, side by side.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "../api";
import { Chart } from "../Chart";
import { duration, number, plural } from "../format";
import { hue, learn, theme } from "../paint";
import { Commands, Dot, Missing, Panel, Scroll } from "../parts";
import { address, go, useData, useValue, withQuery } from "../store";

interface RunSummary {
  name: string;
  called: string;
  trace: string;
  texts: Record<string, string>;
  numbers: Record<string, number | null>;
}

interface Figure {
  path: string;
  what: string;
  /** -1: less of it is better, 1: more, 0: neither. */
  better: -1 | 0 | 1;
}

interface Judged {
  mean: number;
  low: number | null;
  high: number | null;
  ratio: number | null;
  verdict: string | null;
}

interface Comparison {
  name: string;
  seeds: number[];
  vary: string;
  baseline: string;
  cases: Record<string, { jobs: number; figures: Record<string, Record<string, Judged>> }>;
}

interface Lab {
  runs: RunSummary[];
  figures: Figure[];
  comparisons: Comparison[];
}

interface Starving {
  job: string;
  queue: string;
  user: string;
  gpus: number;
  wait_s: number;
}

interface Report {
  name: string;
  gpus: number;
  starving?: Starving[];
  series?: { time_s: number[]; held_gpus: number[]; waiting_gpus: number[] };
  by_queue?: Record<string, { jobs: number; wait_s: { mean?: number; p90?: number } }>;
}

export function LabPage() {
  const lab = useData<Lab>("/api/lab", false);
  const { query } = useValue(address);
  const { data } = lab;
  if (data) learn(data.runs.map((run) => run.name));
  const chosen = useMemo(() => {
    const names = (query.get("runs") ?? "").split(",").filter(Boolean);
    return data ? data.runs.filter((run) => !names.length || names.includes(run.name)).map((run) => run.name) : [];
  }, [data, query]);
  const reports = useReports(chosen.slice(0, 6));
  if (!data) return <Missing of={lab} what="the runs" />;
  if (!data.runs.length && !data.comparisons.length)
    return (
      <div class="empty">
        <h2>No runs yet</h2>
        <p>Replay a trace under a configuration, and look at it here:</p>
        <pre>{"muster replay examples/trace.csv --nodes 4x8 --out runs/first\nmuster ui --replay runs"}</pre>
      </div>
    );
  const shown = data.runs.filter((run) => chosen.includes(run.name));
  const traces = [...new Set(shown.map((run) => run.trace))];
  function toggle(name: string): void {
    const next = new Set(chosen);
    if (next.has(name)) next.delete(name);
    else next.add(name);
    go(withQuery({ runs: next.size === data?.runs.length ? null : [...next].join(",") }));
  }
  return (
    <div class="lab">
      {data.comparisons.map((comparison) => <Compared key={comparison.name} comparison={comparison} figures={data.figures} />)}
      {data.runs.length > 0 && <div class="columns"><Panel title={plural(data.runs.length, "run")}>
        <div class="chips" role="group" aria-label="Runs to compare">
          {data.runs.map((run) => (
            <button key={run.name} type="button" aria-pressed={chosen.includes(run.name)} onClick={() => toggle(run.name)}>
              <Dot name={run.name} />{run.name}{run.called !== run.name && <span class="muted"> ({run.called})</span>}
            </button>
          ))}
        </div>
        <Scroll label="Figures of the runs">
          <table class="compare">
            <thead>
              <tr><th>figure</th>{shown.map((run) => <th key={run.name} class="n">{run.name}</th>)}</tr>
              {traces.length > 1 && <tr><th>trace</th>{shown.map((run) => <th key={run.name} class="n">{run.trace || "–"}</th>)}</tr>}
            </thead>
            <tbody>{data.figures.map((figure) => <Row key={figure.path} figure={figure} runs={shown} isAlike={traces.length === 1} />)}</tbody>
          </table>
        </Scroll>
        <p class="muted">
          {shown.length > 1 && (traces.length === 1 ? <><i class="dot is-best" />the best of them. </> : <>These are runs of {plural(traces.length, "trace")}, so none is called the best. </>)}
          {WORDS}
        </p>
        <Commands commands={[]} api={["/api/lab", ...chosen.map((name) => `/api/lab/${encodeURIComponent(name)}`)]} />
      </Panel>
      <div>{reports.length > 0 && <Curves reports={reports} />}</div></div>}
      <div class="columns">
        {reports.map(({ name, report }) => (
          <Panel key={name} title={<><Dot name={name} /> {name}: who waited longest</>}>
            <table>
              <thead><tr><th>job</th><th>queue</th><th>user</th><th class="n">GPUs</th><th class="n">waited</th></tr></thead>
              <tbody>
                {(report.starving ?? []).slice(0, 8).map((one) => (
                  <tr key={one.job}><td class="name">{one.job}</td><td>{one.queue}</td><td>{one.user}</td><td class="n">{one.gpus}</td><td class="n">{duration(one.wait_s)}</td></tr>
                ))}
              </tbody>
            </table>
          </Panel>
        ))}
      </div>
    </div>
  );
}

function Row({ figure, runs, isAlike }: { figure: Figure; runs: RunSummary[]; isAlike: boolean }) {
  const values = runs.map((run) => run.numbers[figure.path]);
  const known = values.filter((value): value is number => typeof value === "number");
  if (!known.length) return null;
  const best = isAlike && figure.better < 0 ? Math.min(...known) : isAlike && figure.better > 0 ? Math.max(...known) : null;
  const differs = known.some((value) => value !== known[0]);
  return (
    <tr>
      <th scope="row">{nameOf(figure)}</th>
      {runs.map((run, i) => (
        <td key={run.name} class={`n${differs && best !== null && values[i] === best ? " best" : ""}`} title={run.texts[figure.path]}>
          {isTime(figure) && typeof values[i] === "number" ? duration(values[i]) : run.texts[figure.path] || "–"}
        </td>
      ))}
    </tr>
  );
}

const SECONDS = " (s)";

function isTime(figure: Figure): boolean {
  return figure.what.endsWith(SECONDS);
}

/** Seconds are told as days, hours and minutes, so that the name need not say it. */
function nameOf(figure: Figure): string {
  return isTime(figure) ? figure.what.slice(0, -SECONDS.length) : figure.what;
}

/** Configurations against each other over several seeds, with intervals and verdicts. */
function Compared({ comparison, figures }: { comparison: Comparison; figures: Figure[] }) {
  return (
    <>
      {Object.entries(comparison.cases).map(([name, one]) => {
        const configs = [...new Set(Object.values(one.figures).flatMap((row) => Object.keys(row)))];
        return (
          <Panel key={name} title={`${comparison.name}: ${name}`} aside={<span class="muted">{plural(comparison.seeds.length, "seed")}, against {comparison.baseline}</span>}>
            <Scroll label={name}>
              <table class="compare">
                <thead><tr><th>figure</th>{configs.map((config) => <th key={config} class="n">{config}</th>)}</tr></thead>
                <tbody>
                  {figures.filter((figure) => one.figures[figure.path]).map((figure) => (
                    <tr key={figure.path}>
                      <th scope="row">{nameOf(figure)}</th>
                      {configs.map((config) => {
                        const judged = one.figures[figure.path]?.[config];
                        return (
                          <td key={config} class={`n is-${judged?.verdict ?? "none"}`}>
                            {judged ? written(figure, judged.mean) : "–"}
                            {judged?.low != null && judged.high != null && judged.high > judged.low && <span class="muted"> ± {written(figure, (judged.high - judged.low) / 2)}</span>}
                            {judged?.verdict && <span class="verdict">{verdictText(judged)}</span>}
                          </td>
                        );
                      })}
                    </tr>
                  ))}
                </tbody>
              </table>
            </Scroll>
            <p class="muted">{WORDS} {comparison.seeds.length > 1 ? "What follows ± holds the mean with a confidence of 95 %; the verdict compares runs of the same seed." : `× is how many times as much as ${comparison.baseline} has. With more seeds it would be said which differences are none of chance.`}</p>
          </Panel>
        );
      })}
    </>
  );
}

/** One seed bears no verdict: how many times as much it is says more. */
function verdictText({ verdict, ratio }: Judged): string {
  if (verdict !== "one-seed") return verdict ?? "";
  return ratio === null ? "" : `×${ratio.toFixed(2)}`;
}

const WORDS = "p90: nine of ten jobs waited less. Largest 1 %: the jobs that ask for most GPUs.";
const few = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

function written(figure: Figure, value: number): string {
  return isTime(figure) ? duration(value) : few.format(value);
}

function useReports(names: string[]): { name: string; report: Report }[] {
  const [held, hold] = useState<Record<string, Report>>({});
  const key = names.join(",");
  useEffect(() => {
    for (const name of names) {
      if (held[name]) continue;
      ask<{ report: Report }>(`/api/lab/${encodeURIComponent(name)}`)
        .then(({ report }) => hold((old) => ({ ...old, [name]: report })))
        .catch(() => undefined);
    }
  }, [key]);
  return names.flatMap((name) => (held[name] ? [{ name, report: held[name] }] : []));
}

function Curves({ reports }: { reports: { name: string; report: Report }[] }) {
  const made = useMemo(() => {
    const colours = theme();
    const drawn = reports.filter(({ report }) => report.series?.time_s.length);
    const times = [...new Set(drawn.flatMap(({ report }) => report.series?.time_s ?? []))].sort((a, b) => a - b);
    const along = (xs: number[], ys: number[]): (number | null)[] => {
      let at = 0;
      return times.map((time) => {
        if (time > (xs.at(-1) ?? 0)) return null; // the run has ended
        while (at + 1 < xs.length && (xs[at + 1] as number) <= time) at += 1;
        return ys[at] ?? 0;
      });
    };
    const of = (key: "held_gpus" | "waiting_gpus") =>
      drawn.map(({ name, report }) => ({
        label: name,
        colour: colours.hues[hue(name)] as string,
        values: along(report.series?.time_s ?? [], report.series?.[key] ?? []),
      }));
    return { times, held: of("held_gpus"), waiting: of("waiting_gpus") };
  }, [reports.map(({ name }) => name).join(",")]);
  if (made.times.length < 2) return null;
  const common = { x: made.times, stepped: true, format: (value: number) => number(Math.round(value)), xFormat: duration };
  return (
    <>
      <Panel title="GPUs held, over time"><Chart {...common} lines={made.held} label="GPUs held over time, by run" /></Panel>
      <Panel title="GPUs waited for, over time"><Chart {...common} lines={made.waiting} label="GPUs waited for over time, by run" /></Panel>
    </>
  );
}
