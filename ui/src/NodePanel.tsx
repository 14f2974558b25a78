// One node that was opened on the map: how it stands, and its pods.

import type { NodePage } from "./api";
import { amountsText, neat, plural, podStatus, resourceWord } from "./format";
import { askAll } from "./pages/whatif";
import { Chip, Commands, JobLink, Link, Missing, Panel, useIntoView, useKubectl, useSource } from "./parts";
import { status, useData, useValue, withQuery } from "./store";

export function NodePanel({ name }: { name: string }) {
  const node = useData<NodePage>(`/api/nodes/${encodeURIComponent(name)}`);
  const feed = useValue(status);
  const source = useSource();
  const kubectl = useKubectl();
  const place = useIntoView(name);
  const close = <Link href={withQuery({ node: null })} class="button" aria-label="Close">✕</Link>;
  if (!node.data || node.data.name !== name) return <Panel title={name} aside={close} class="detail" place={place}><Missing of={node} what="the node" /></Panel>;
  const { data } = node;
  return (
    <Panel title={<span class="name">{data.name}</span>} aside={close} class="detail" place={place}>
      <p>
        <Chip state={data.state} />{" "}
        {data.domains.map((domain) => (
          <span key={domain.name}> in <Link href={withQuery({ domain: domain.name })} class="name">{domain.name}</Link></span>
        ))}
      </p>
      <table>
        <thead><tr><th>resource</th><th class="n">free</th><th class="n">used</th><th class="n">of</th></tr></thead>
        <tbody>
          {Object.keys(data.allocatable).map((resource) => (
            <tr key={resource}>
              <td>{resourceWord(resource)}</td>
              <td class="n"><b>{neat(data.free[resource] ?? "")}</b></td>
              <td class="n">{neat(data.used[resource] ?? "")}</td>
              <td class="n">{neat(data.allocatable[resource] ?? "")}</td>
            </tr>
          ))}
        </tbody>
      </table>
      {data.taints.length > 0 && <p class="muted">Taints: {data.taints.join(", ")}</p>}
      <h3>{plural(data.running.length, "pod")}</h3>
      <ul class="pods">
        {data.running.map((pod) => (
          <li key={pod.pod}>
            {pod.job ? <JobLink job={pod.job} /> : <span class="muted">of another scheduler</span>}
            <span class="muted"> {pod.job.endsWith(`/pod/${shortName(pod.pod)}`) ? "" : `${shortName(pod.pod)}, `}{podStatus(pod.status)}{asked(pod.asks)}</span>
          </li>
        ))}
      </ul>
      {data.promisedTo.length > 0 && (
        <>
          <h3>Promised to</h3>
          <ul class="pods">
            {data.promisedTo.map((pod) => <li key={pod.pod}><JobLink job={pod.job} /> <span class="muted">{pod.pod}</span></li>)}
          </ul>
        </>
      )}
      <p><Link href={askAll([{ kind: "drain", text: name }])}>What if it were drained?</Link></p>
      <Commands
        commands={[
          ...(feed?.live ? [`${kubectl} describe node ${name}`] : []),
          `muster nodes ${source} --output wide`,
        ]}
        api={[`/api/nodes/${encodeURIComponent(name)}`]}
      />
    </Panel>
  );
}

function shortName(pod: string): string {
  return pod.slice(pod.lastIndexOf("/") + 1);
}

function asked(asks: Record<string, string>): string {
  const text = amountsText(asks);
  return text ? `; ${text}` : "";
}
