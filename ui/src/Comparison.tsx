// A comparison: configurations against each other over several seeds, with intervals and verdicts; or the runs of one seed.

import { Curves, Longest, useReports } from "./Reports";
import { duration, plural } from "./format";
import { Commands, Panel, Scroll, Segments } from "./parts";
import { address, go, useValue, withQuery } from "./store";

export interface Figure {
  path: string;
  what: string;
  /** -1: less of it is better, 1: more, 0: neither. */
  better: -1 | 0 | 1;
}

interface Judged {
  mean: number;
  low: number | null;
  high: number | null;
  /** By seed. */
  values: number[];
  ratio: number | null;
  verdict: string | null;
}

interface Case {
  jobs: number;
  /** By configuration, the keys of its runs by seed; comparisons of older versions do not name them. */
  runs?: Record<string, string[]>;
  figures: Record<string, Record<string, Judged>>;
}

export interface Comparison {
  name: string;
  seeds: number[];
  vary: string;
  baseline: string;
  cases: Record<string, Case>;
}

export const WORDS = "p90: nine of ten jobs waited less. Largest 1 %: the jobs that ask for most GPUs.";
const ALL = "";

export function Compared({ comparison, figures }: { comparison: Comparison; figures: Figure[] }) {
  const wanted = useValue(address).query.get("seed") ?? ALL;
  const place = comparison.seeds.findIndex((seed) => String(seed) === wanted);
  return (
    <>
      {comparison.seeds.length > 1 && (
        <div class="seeds">
          <h2>{comparison.name}</h2>
          <Segments
            label={`Seed of ${comparison.name}`}
            value={place < 0 ? ALL : wanted}
            options={[{ value: ALL, label: "all seeds" }, ...comparison.seeds.map((seed) => ({ value: String(seed), label: `seed ${seed}` }))]}
            onChange={(seed) => go(withQuery({ seed }))}
          />
        </div>
      )}
      {Object.entries(comparison.cases).map(([name, one]) => (
        <CasePanels key={name} comparison={comparison} name={name} one={one} figures={figures} place={comparison.seeds.length > 1 ? place : 0} />
      ))}
    </>
  );
}

/** One trace on one cluster. `place`: which of the seeds is looked at; -1: all together. */
function CasePanels(props: { comparison: Comparison; name: string; one: Case; figures: Figure[]; place: number }) {
  const { comparison, name, one, figures, place } = props;
  const configs = [...new Set(Object.values(one.figures).flatMap((row) => Object.keys(row)))];
  const keys = configs.flatMap((config) => {
    const key = one.runs?.[config]?.[place];
    return key ? [{ name: config, path: `/api/lab/${encodeURIComponent(comparison.name)}/${key}` }] : [];
  });
  const reports = useReports(keys);
  const isOne = comparison.seeds.length > 1 && place >= 0;
  const aside = isOne ? `seed ${comparison.seeds[place]}` : plural(comparison.seeds.length, "seed");
  return (
    <>
      <Panel title={`${comparison.name}: ${name}`} aside={<span class="muted">{aside}, against {comparison.baseline}</span>}>
        <Scroll label={name}>
          <table class="compare">
            <thead><tr><th>figure</th>{configs.map((config) => <th key={config} class="n">{config}</th>)}</tr></thead>
            <tbody>
              {figures.filter((figure) => one.figures[figure.path]).map((figure) => (
                <tr key={figure.path}>
                  <th scope="row">{nameOf(figure)}</th>
                  {configs.map((config) => {
                    const row = one.figures[figure.path] ?? {};
                    return isOne
                      ? <Single key={config} figure={figure} value={row[config]?.values[place]} base={config === comparison.baseline ? undefined : row[comparison.baseline]?.values[place]} />
                      : <Mean key={config} figure={figure} judged={row[config]} />;
                  })}
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
        <p class="after muted">{WORDS} {meaning(comparison, isOne)}</p>
        {keys.length > 0 && <Commands commands={[]} api={keys.map(({ path }) => path)} />}
      </Panel>
      {reports.length > 0 && <div class="columns"><Curves reports={reports} /></div>}
      {reports.length > 0 && <Longest reports={reports} />}
    </>
  );
}

function meaning({ seeds, baseline }: Comparison, isOne: boolean): string {
  const times = `× is how many times as much as ${baseline} has`;
  if (isOne) return `${times} with the same seed; what follows from all of them stands under "all seeds".`;
  if (seeds.length === 1) return `${times}. With more seeds it would be said which differences are none of chance.`;
  return "What follows ± holds the mean with a confidence of 95 %; the verdict compares runs of the same seed.";
}

function Single({ figure, value, base }: { figure: Figure; value: number | undefined; base: number | undefined }) {
  return (
    <td class="n">
      {value === undefined ? "–" : written(figure, value)}
      {value !== undefined && base !== undefined && <span class="verdict">{base ? `×${(value / base).toFixed(2)}` : ""}</span>}
    </td>
  );
}

function Mean({ figure, judged }: { figure: Figure; judged: Judged | undefined }) {
  return (
    <td class={`n is-${judged?.verdict ?? "none"}`}>
      {judged ? written(figure, judged.mean) : "–"}
      {judged?.low != null && judged.high != null && judged.high > judged.low && <span class="muted"> ± {written(figure, (judged.high - judged.low) / 2)}</span>}
      {judged?.verdict && <span class="verdict">{verdictText(judged)}</span>}
    </td>
  );
}

/** One seed bears no verdict: how many times as much it is says more. */
function verdictText({ verdict, ratio }: Judged): string {
  if (verdict !== "one-seed") return verdict ?? "";
  return ratio === null ? "" : `×${ratio.toFixed(2)}`;
}

const few = new Intl.NumberFormat(undefined, { maximumSignificantDigits: 3 });

function written(figure: Figure, value: number): string {
  return isTime(figure) ? duration(value) : few.format(value);
}

const SECONDS = " (s)";

export function isTime(figure: Figure): boolean {
  return figure.what.endsWith(SECONDS);
}

/** Seconds are told as days, hours and minutes, so that the name need not say it. */
export function nameOf(figure: Figure): string {
  return isTime(figure) ? figure.what.slice(0, -SECONDS.length) : figure.what;
}
