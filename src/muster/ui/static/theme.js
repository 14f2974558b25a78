// Before anything is drawn, so that a dark page does not flash white: the theme that was chosen, else the system's.
{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const set = () => {
    let chosen = null;
    try {
      chosen = localStorage.getItem("muster-theme");
    } catch {
      // No storage: the system decides.
    }
    document.documentElement.dataset.theme = chosen ?? (system.matches ? "dark" : "light");
    window.dispatchEvent(new Event("muster-theme"));
  };
  set();
  system.addEventListener("change", set);
}
