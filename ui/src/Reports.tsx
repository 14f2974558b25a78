// Reports of replays side by side: what they held over time, and who waited longest. For runs of their own and of comparisons.

import { useEffect, useMemo, useState } from "preact/hooks";
import { ask } from "./api";
import { Chart } from "./Chart";
import { duration, number } from "./format";
import { hue, theme } from "./paint";
import { Dot, Panel, Scroll } from "./parts";

interface Starving {
  job: string;
  queue: string;
  user: string;
  gpus: number;
  wait_s: number;
}

interface Report {
  starving?: Starving[];
  series?: { time_s: number[]; held_gpus: number[]; waiting_gpus: number[] };
}

/** A run by what it is called here, and where its report is. */
export interface Asked {
  name: string;
  path: string;
}

interface Told extends Asked {
  report: Report;
}

/** So many of them can be told apart in one picture. */
const MOST = 6;
const SHOWN = 8;

/** The reports that have come so far. */
export function useReports(all: Asked[]): Told[] {
  const [held, hold] = useState<Record<string, Report>>({});
  const asked = all.slice(0, MOST);
  useEffect(() => {
    for (const { path } of asked) {
      if (held[path]) continue;
      ask<{ report: Report }>(path)
        .then(({ report }) => hold((old) => ({ ...old, [path]: report })))
        .catch(() => undefined);
    }
  }, [asked.map(({ path }) => path).join("\n")]);
  return asked.flatMap((one) => (held[one.path] ? [{ ...one, report: held[one.path] as Report }] : []));
}

/** Who waited longest, a panel for each. */
export function Longest({ reports }: { reports: Told[] }) {
  return (
    <div class="columns">
      {reports.map(({ name, report }) => (
        <Panel key={name} title={<><Dot name={name} /> {name}: who waited longest</>}>
          <Scroll label={`${name}: who waited longest`}>
            <table>
              <thead><tr><th>job</th><th>queue</th><th>user</th><th class="n">GPUs</th><th class="n">waited</th></tr></thead>
              <tbody>
                {(report.starving ?? []).slice(0, SHOWN).map((one) => (
                  <tr key={one.job}><td class="name">{one.job}</td><td>{one.queue}</td><td>{one.user}</td><td class="n">{one.gpus}</td><td class="n">{duration(one.wait_s)}</td></tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </Panel>
      ))}
    </div>
  );
}

export function Curves({ reports }: { reports: Told[] }) {
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
  }, [reports.map(({ path }) => path).join("\n")]);
  if (made.times.length < 2) return null;
  const common = { x: made.times, stepped: true, format: (value: number) => number(Math.round(value)), xFormat: duration };
  return (
    <>
      <Panel title="GPUs held, over time"><Chart {...common} lines={made.held} label="GPUs held over time, by run" /></Panel>
      <Panel title="GPUs waited for, over time"><Chart {...common} lines={made.waiting} label="GPUs waited for over time, by run" /></Panel>
    </>
  );
}
