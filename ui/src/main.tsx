// The frame around every page: where one is, how the feed is, and which page the address means.

import { render } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { setToken, takeToken } from "./api";
import { useLook } from "./NodeMap";
import { Boundary, Link } from "./parts";
import { Player } from "./Player";
import { Search } from "./Search";
import { address, begin, coloured, connection, go, linkTo, status, useValue } from "./store";
import { ClusterPage } from "./pages/cluster";
import { ConfigPage } from "./pages/config";
import { DecisionsPage } from "./pages/decisions";
import { JobPage } from "./pages/job";
import { JobsPage } from "./pages/jobs";
import { LabPage } from "./pages/lab";
import { QueuesPage } from "./pages/queues";
import { WhatIfPage } from "./pages/whatif";

const PAGES = [
  { path: "/cluster", title: "Cluster" },
  { path: "/jobs", title: "Jobs" },
  { path: "/queues", title: "Queues" },
  { path: "/decisions", title: "Decisions" },
  { path: "/whatif", title: "What if" },
  { path: "/lab", title: "Lab" },
  { path: "/config", title: "Config" },
] as const;

function App() {
  const { path } = useValue(address);
  const feed = useValue(status);
  const link = useValue(connection);
  useValue(coloured);
  // Of replays there is no cluster, no cycle and no configuration of their own.
  const isLab = feed?.source === "replay";
  useEffect(() => {
    if (path === "/" && feed) go(isLab ? "/lab" : withoutPath(), true);
  }, [path, feed?.source]);
  useEffect(() => {
    document.title = `${jobOf(path) ?? titleOf(path)} – ${feed?.title ?? "Muster"}`;
  }, [path, feed?.title]);
  useEffect(() => {
    document.querySelector("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [path]);
  return (
    <>
      <a class="skip" href="#main">Skip to the content</a>
      <header class="top">
        <Link href={isLab ? "/lab" : linkTo("/cluster")} class="brand">
          <img src="/static/icon.svg" alt="" width="22" height="22" />
          Muster
        </Link>
        <nav aria-label="Pages">
          {PAGES.filter((page) => !isLab || page.path === "/lab").map((page) => (
            <Link key={page.path} href={linkTo(page.path)} aria-current={path.startsWith(page.path) ? "page" : undefined}>
              {page.title}
            </Link>
          ))}
        </nav>
        <div class="right">
          <Feed />
          {!isLab && (
            <button type="button" class="find" onClick={() => window.dispatchEvent(new Event("muster-search"))}>
              Search <kbd>/</kbd>
            </button>
          )}
          <ThemeSwitch />
        </div>
      </header>
      {link.state === "lost" && feed && (
        <div class="banner warn" role="status">The connection is lost ({link.why}); what you see is old. Trying again …</div>
      )}
      {feed?.trouble && <div class="banner bad" role="alert">{feed.trouble}</div>}
      {link.state === "refused" ? (
        <SignIn why={link.why} />
      ) : (
        <main id="main" tabIndex={-1}>
          {!jobOf(path) && <h1 class="unseen">{titleOf(path)}</h1>}
          <Boundary key={path}>{isLab && !path.startsWith("/lab") ? <ReplaysAlone /> : pageOf(path)}</Boundary>
        </main>
      )}
      <Announcer />
      {!path.startsWith("/lab") && <Player />}
      {!isLab && <Search />}
    </>
  );
}

function ReplaysAlone() {
  return (
    <div class="empty" role="status">
      <p>Replays alone are shown here, so there is no cluster to look at. What came of them stands in the lab.</p>
      <Link href="/lab" class="button">Go to the lab</Link>
    </div>
  );
}

function withoutPath(): string {
  return `/cluster${location.search}`;
}

function jobOf(path: string): string | undefined {
  return /^\/jobs\/(.+)$/.exec(path)?.[1];
}

function titleOf(path: string): string {
  return PAGES.find((known) => path.startsWith(known.path))?.title ?? "Muster";
}

const ANNOUNCE_MS = 10_000;

/** Tells screen readers how a live cluster changes, not more often than anybody can listen to. */
function Announcer() {
  const feed = useValue(status);
  const [said, say] = useState("");
  const last = useRef(0);
  const text = feed?.live && feed.waiting !== null ? `${feed.waiting} jobs wait, ${feed.running} run` : "";
  useEffect(() => {
    if (text === said) return;
    const timer = setTimeout(() => {
      last.current = Date.now();
      say(text);
    }, Math.max(0, last.current + ANNOUNCE_MS - Date.now()));
    return () => clearTimeout(timer);
  }, [text, said]);
  return <div class="unseen" role="status">{said}</div>;
}

function pageOf(path: string) {
  const job = jobOf(path);
  if (job) return <JobPage key={job} name={job} />;
  if (path.startsWith("/jobs")) return <JobsPage />;
  if (path.startsWith("/queues")) return <QueuesPage />;
  if (path.startsWith("/decisions")) return <DecisionsPage />;
  if (path.startsWith("/config")) return <ConfigPage />;
  if (path.startsWith("/lab")) return <LabPage />;
  if (path.startsWith("/whatif")) return <WhatIfPage />;
  if (path === "/" || path.startsWith("/cluster")) return <ClusterPage />;
  return (
    <div class="empty">
      <p>There is no page {path}.</p>
      <Link href="/cluster" class="button">Go to the cluster</Link>
    </div>
  );
}

function Feed() {
  const feed = useValue(status);
  const link = useValue(connection);
  if (!feed) return link.state === "refused" ? null : <span class="feed muted">connecting …</span>;
  const word = link.state === "lost" ? "lost" : feed.source === "replay" ? "" : feed.live ? "live" : feed.ended ? "simulated" : "simulating";
  const meaning: Record<string, string> = {
    lost: "The server does not answer",
    live: "A live cluster, as it changes",
    simulated: "A simulation that has come to its end",
    simulating: "A simulation that is running",
  };
  return (
    <span class="feed" title={`${feed.title}. ${meaning[word] ?? ""}`}>
      <i class={`light is-${word}`} aria-hidden="true" />
      <span class="title">{feed.title}</span>
      <span class="muted">{word}</span>
    </span>
  );
}

function SignIn({ why }: { why: string }) {
  const [token, setText] = useState("");
  return (
    <main id="main" class="empty" tabIndex={-1}>
      <form
        onSubmit={(event) => {
          event.preventDefault();
          setToken(token.trim());
          window.dispatchEvent(new Event("muster-token"));
          connection.set({ state: "connecting", why: "" });
        }}
      >
        <h1>Who are you?</h1>
        <p>{why.includes("Authorization") ? "This dashboard is for those who have a token." : why}</p>
        <label>
          Token
          <input type="password" autocomplete="off" value={token} onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary">Sign in</button>
        <p class="muted">The server printed it when it started; on a cluster, <code>kubectl create token NAME</code> makes one.</p>
      </form>
    </main>
  );
}

function ThemeSwitch() {
  useLook();
  const dark = document.documentElement.dataset.theme === "dark";
  function turn(): void {
    try {
      localStorage.setItem("muster-theme", dark ? "light" : "dark");
    } catch {
      // No storage: it holds until the page goes.
    }
    document.documentElement.dataset.theme = dark ? "light" : "dark";
    window.dispatchEvent(new Event("muster-theme"));
  }
  const name = dark ? "Change to the light theme" : "Change to the dark theme";
  return (
    <button type="button" class="theme" onClick={turn} aria-label={name} title={name}>
      {dark ? "☀" : "☾"}
    </button>
  );
}

takeToken();
begin();
render(<App />, document.getElementById("app") as HTMLElement);
