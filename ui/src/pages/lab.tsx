// Lab: replays of traces, side by side.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "../api";
import { Chart } from "../Chart";
import { duration, number } from "../format";
import { hue, theme } from "../paint";
import { Dot, Missing, Panel } from "../parts";
import { address, go, useData, useValue, withQuery } from "../store";

interface RunSummary {
  name: string;
  called: string;
  trace: string;
  figures: Record<string, string>;
  numbers: Record<string, number | null>;
}

interface Lab {
  runs: RunSummary[];
  rows: string[];
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

/** Of which figures less is better, and of which more. */
const LESS = /^(wait|largest|completion|slowdown|makespan|fragmentation|GPU-hours lost|pods evicted|gangs broken|nodes of gangs)/;
const MORE = /^(utilisation|fairness|jobs that ended)/;

export function LabPage() {
  const lab = useData<Lab>("/api/lab", false);
  const { query } = useValue(address);
  const { data } = lab;
  const chosen = useMemo(() => {
    const names = (query.get("runs") ?? "").split(",").filter(Boolean);
    return data ? data.runs.filter((run) => !names.length || names.includes(run.name)).map((run) => run.name) : [];
  }, [data, query]);
  const reports = useReports(chosen.slice(0, 6));
  if (!data) return <Missing of={lab} what="the runs" />;
  if (!data.runs.length)
    return (
      <div class="empty">
        <h1>No runs yet</h1>
        <p>Replay a trace under a configuration, and look at it here:</p>
        <pre>{"muster replay examples/trace.csv --nodes 4x8 --out runs/first\nmuster ui --replay runs"}</pre>
      </div>
    );
  const shown = data.runs.filter((run) => chosen.includes(run.name));
  function toggle(name: string): void {
    const next = new Set(chosen);
    if (next.has(name)) next.delete(name);
    else next.add(name);
    go(withQuery({ runs: next.size === data?.runs.length ? null : [...next].join(",") }));
  }
  return (
    <div class="lab">
      <Panel title={`${number(data.runs.length)} ${data.runs.length === 1 ? "run" : "runs"}`}>
        <div class="chips" role="group" aria-label="Runs to compare">
          {data.runs.map((run) => (
            <button key={run.name} type="button" aria-pressed={chosen.includes(run.name)} onClick={() => toggle(run.name)}>
              <Dot name={run.name} />{run.name}{run.called !== run.name && <span class="muted"> ({run.called})</span>}
            </button>
          ))}
        </div>
        <div class="scroll">
          <table class="compare">
            <thead><tr><th>figure</th>{shown.map((run) => <th key={run.name} class="n">{run.name}</th>)}</tr></thead>
            <tbody>{data.rows.map((row) => <Figure key={row} row={row} runs={shown} />)}</tbody>
          </table>
        </div>
      </Panel>
      {reports.length > 0 && <Curves reports={reports} />}
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

function Figure({ row, runs }: { row: string; runs: RunSummary[] }) {
  const values = runs.map((run) => run.numbers[row]);
  const known = values.filter((value): value is number => typeof value === "number");
  if (!known.length) return null;
  const best = LESS.test(row) ? Math.min(...known) : MORE.test(row) ? Math.max(...known) : null;
  const differs = known.some((value) => value !== known[0]);
  return (
    <tr>
      <th scope="row">{row}</th>
      {runs.map((run, i) => (
        <td key={run.name} class={`n${differs && best !== null && values[i] === best ? " best" : ""}`}>{run.figures[row]}</td>
      ))}
    </tr>
  );
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
    const along = (xs: number[], ys: number[]): number[] => {
      let at = 0;
      return times.map((time) => {
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
    <div class="columns">
      <Panel title="GPUs held"><Chart {...common} lines={made.held} label="GPUs held over time, by run" /></Panel>
      <Panel title="GPUs waited for"><Chart {...common} lines={made.waiting} label="GPUs waited for over time, by run" /></Panel>
    </div>
  );
}
