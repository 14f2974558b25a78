// Lab: replays of traces and comparisons, side by side.

import { useMemo } from "preact/hooks";
import { Compared, isTime, nameOf, WORDS, type Comparison, type Figure } from "../Comparison";
import { duration, plural } from "../format";
import { learn } from "../paint";
import { Commands, Dot, Missing, Panel, Scroll } from "../parts";
import { Curves, Longest, useReports } from "../Reports";
import { address, go, useData, useValue, withQuery } from "../store";

interface RunSummary {
  name: string;
  called: string;
  trace: string;
  texts: Record<string, string>;
  numbers: Record<string, number | null>;
}

interface Lab {
  runs: RunSummary[];
  figures: Figure[];
  comparisons: Comparison[];
}

export function LabPage() {
  const lab = useData<Lab>("/api/lab", false);
  const { query } = useValue(address);
  const { data } = lab;
  if (data) learn([...new Set([...data.runs.map((run) => run.name), ...data.comparisons.flatMap(configsOf)])]);
  const chosen = useMemo(() => {
    const names = (query.get("runs") ?? "").split(",").filter(Boolean);
    return data ? data.runs.filter((run) => !names.length || names.includes(run.name)).map((run) => run.name) : [];
  }, [data, query]);
  const reports = useReports(chosen.map((name) => ({ name, path: `/api/lab/${encodeURIComponent(name)}` })));
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
        <p class="after muted">
          {shown.length > 1 && (traces.length === 1 ? <><i class="dot is-best" />the best of them. </> : <>These are runs of {plural(traces.length, "trace")}, so none is called the best. </>)}
          {WORDS}
        </p>
        <Commands commands={[]} api={["/api/lab", ...chosen.map((name) => `/api/lab/${encodeURIComponent(name)}`)]} />
      </Panel>
      <div>{reports.length > 0 && <Curves reports={reports} />}</div></div>}
      <Longest reports={reports} />
    </div>
  );
}

function configsOf(comparison: Comparison): string[] {
  return Object.values(comparison.cases).flatMap((one) => Object.values(one.figures).flatMap((row) => Object.keys(row)));
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
