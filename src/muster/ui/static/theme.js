// Before anything is drawn, so that a dark page does not flash white.
try {
  const chosen = localStorage.getItem("muster-theme");
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
} catch {
  // No storage: the system decides.
}
