// What cannot wait for the script of the page: the theme, so that a dark page does not flash white, and the questions
// whose answers the first picture is drawn from; `ask` takes the answers up.
{
  const stored = (storage, name) => {
    try {
      return window[storage].getItem(name);
    } catch {
      return null; // No storage: the system decides, and nobody has a token.
    }
  };

  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = () => {
    document.documentElement.dataset.theme = stored("localStorage", "muster-theme") ?? (system.matches ? "dark" : "light");
    window.dispatchEvent(new Event("muster-theme"));
  };
  set();
  system.addEventListener("change", set);

  const isMap = ["/", "/cluster"].includes(location.pathname) && !new URLSearchParams(location.search).has("at");
  if (isMap && !location.hash) {
    const token = stored("sessionStorage", "muster-token");
    const headers = token ? { Authorization: `Bearer ${token}` } : {};
    const paths = ["/api/cluster/state", "/api/cluster/tree?revision=", "/api/names"];
    window.musterEarly = Object.fromEntries(paths.map((path) => [path, fetch(path, { headers, cache: "no-store" })]));
    for (const answer of Object.values(window.musterEarly)) answer.catch(() => undefined);
  }
}
