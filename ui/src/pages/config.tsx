// Config: the configuration as understood, what each part is for, and what could not be used.

import type { Config, Leader } from "../api";
import { duration, number, plural } from "../format";
import { Commands, Link, Missing, Panel, Scroll, When } from "../parts";
import { linkTo, status, useData, useValue } from "../store";

export function ConfigPage() {
  const config = useData<Config>("/api/config");
  const feed = useValue(status);
  const { data } = config;
  if (!data) return <Missing of={config} what="the configuration" />;
  const troubles = data.quarantined.length + data.faults.length + data.pluginsLeftOut.length + data.errors.length;
  return (
    <div class="config">
      <Panel title="Health" class={troubles || feed?.trouble ? "warn" : "good"}>
        <dl class="facts">
          <div><dt>source</dt><dd>{feed?.title}</dd></div>
          <div><dt>version</dt><dd>{feed?.version}</dd></div>
          <div><dt>cycles seen</dt><dd>{number(feed?.cycles ?? 0)}</dd></div>
          {data.shard && <div><dt>shard</dt><dd>{plural(data.shard.nodes, "node")}, {data.shard.mode}</dd></div>}
          <div><dt>put aside</dt><dd>{plural(data.quarantined.length, "object")}</dd></div>
          <div><dt>faults in the topology</dt><dd>{data.faults.length}</dd></div>
          <div><dt>plugins left out</dt><dd>{data.pluginsLeftOut.join(", ") || "none"}</dd></div>
          <div><dt>notes on the input</dt><dd>{data.notes.length}</dd></div>
          <div><dt>cycles that broke</dt><dd>{data.errors.length}</dd></div>
        </dl>
        {!troubles && !feed?.trouble && <p>Nothing is wrong.</p>}
      </Panel>
      {feed?.live && <Leaders of={data.surroundings} />}
      {data.quarantined.length > 0 && (
        <Panel title="Put aside: these cannot be used, all others go on" class="bad">
          <table class="cards">
            <thead><tr><th>kind</th><th>object</th><th>what is wrong</th></tr></thead>
            <tbody>
              {data.quarantined.map((aside) => (
                <tr key={aside.kind + aside.namespace + aside.name}><td>{aside.kind}</td><td class="name">{aside.namespace ? `${aside.namespace}/${aside.name}` : aside.name}</td><td>{aside.reason}</td></tr>
              ))}
            </tbody>
          </table>
        </Panel>
      )}
      {data.faults.length > 0 && (
        <Panel title="Faults in the topology: what lies under them is out of use" class="bad">
          <ul class="plain">
            {data.faults.map((fault, i) => <li key={i}><Link href={linkTo("/cluster", { domain: fault.domain })} class="name">{fault.domain}</Link>: {fault.fault}</li>)}
          </ul>
        </Panel>
      )}
      {data.errors.length > 0 && (
        <Panel title="Cycles that broke" class="bad">
          <ul class="plain">{data.errors.map((error) => <li key={error.cycle}>cycle {error.cycle}, <When time={error.time} />: {error.error}</li>)}</ul>
        </Panel>
      )}
      {data.notes.length > 0 && (
        <Panel title="Perhaps not meant as it is written" class="warn">
          <ul class="plain">{data.notes.map((note) => <li key={note}>{note}</li>)}</ul>
        </Panel>
      )}
      <div class="columns">
        <Panel title="Actions, in order">
          <ol class="parts">
            {data.actions.map((action) => <Part key={action.name} name={action.name} summary={data.summaries[action.name]} values={action.arguments} />)}
          </ol>
          <Commands commands={["muster config show", "muster plugins"]} api={["/api/config"]} />
        </Panel>
        <div>
          {data.tiers.map((tier, i) => (
            <Panel key={i} title={`Plugins, tier ${i + 1}`}>
              <ol class="parts">
                {tier.map((plugin) => <Part key={plugin.name} name={plugin.name} summary={data.summaries[plugin.name]} values={plugin.arguments} flags={plugin.flags} />)}
              </ol>
            </Panel>
          ))}
          <Panel title="Not in use"><p class="muted">{data.unused.join(", ")}</p></Panel>
        </div>
      </div>
    </div>
  );
}

/** A holder that has not renewed its lease for longer than it lasts does not lead any more. */
function isHeld(leader: Leader, now: number): boolean {
  return leader.holder !== "" && leader.renewed !== null && now - leader.renewed <= leader.lasts;
}

function Leaders({ of }: { of: Config["surroundings"] }) {
  const feed = useValue(status);
  const now = feed?.time ?? 0;
  return (
    <Panel title="Who leads" class={of.trouble ? "warn" : ""}>
      {of.trouble && <p class="warn">{of.trouble}</p>}
      {of.leaders?.length === 0 && <p class="muted">No lease of Muster is there: no replica with leader election has run in a namespace that can be read.</p>}
      {of.leaders && of.leaders.length > 0 && (
        <Scroll label="Leaders">
          <table class="cards">
            <thead><tr><th>lease</th><th>state</th><th>held by</th><th class="n">since</th><th class="n">renewed</th><th class="n">changed hands</th></tr></thead>
            <tbody>
              {of.leaders.map((leader) => (
                <tr key={leader.namespace + leader.lease}>
                  <td class="wide name">{leader.namespace}/{leader.lease}</td>
                  <td>{isHeld(leader, now) ? <span class="chip is-running">leads</span> : <span class="chip is-bad">nobody leads</span>}</td>
                  <td class="name" data-label="held by">{leader.holder || "–"}</td>
                  <td class="n" data-label="since">{leader.since === null ? "–" : <When time={leader.since} />}</td>
                  <td class="n" data-label="renewed">{leader.renewed === null ? "–" : `${duration(now - leader.renewed)} ago`}</td>
                  <td class="n" data-label="changed hands">{number(leader.changes)} ×</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Scroll>
      )}
      {of.shards.length > 0 && (
        <>
          <h3>Shards</h3>
          <Scroll label="Shards">
            <table>
              <thead><tr><th>shard</th><th>scheduler</th><th class="n">nodes wanted</th><th class="n">in use</th><th class="n">to come</th><th class="n">to go</th></tr></thead>
              <tbody>
                {of.shards.map((shard) => (
                  <tr key={shard.shard}><td class="name">{shard.shard}</td><td>{shard.scheduler || "–"}</td><td class="n">{number(shard.wanted)}</td><td class="n">{number(shard.inUse)}</td><td class="n">{number(shard.toAdd)}</td><td class="n">{number(shard.toRemove)}</td></tr>
                ))}
              </tbody>
            </table>
          </Scroll>
        </>
      )}
    </Panel>
  );
}

function Part(props: { name: string; summary?: string | undefined; values: Record<string, unknown>; flags?: Record<string, boolean> }) {
  const values = Object.entries(props.values);
  const flags = Object.entries(props.flags ?? {});
  return (
    <li>
      <b class="name">{props.name}</b>
      {flags.map(([flag, on]) => <span key={flag} class="chip">{flag}: {on ? "on" : "off"}</span>)}
      <p>{props.summary}</p>
      {values.length > 0 && (
        <details>
          <summary>{plural(values.length, "argument")}</summary>
          <dl class="facts">
            {values.map(([key, value]) => <div key={key}><dt>{key}</dt><dd>{typeof value === "object" ? JSON.stringify(value) : String(value)}</dd></div>)}
          </dl>
        </details>
      )}
    </li>
  );
}
