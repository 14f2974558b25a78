// Builds the page into the package: the same sources and lock give the same bytes.
import { build } from "esbuild";
import { copyFileSync, mkdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/muster/ui/static");

rmSync(out, { recursive: true, force: true });
mkdirSync(out, { recursive: true });
await build({
  absWorkingDir: here,
  entryPoints: { app: "src/main.tsx", style: "src/style.css" },
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  legalComments: "none",
  banner: {
    js: "/* Muster dashboard, Apache-2.0. Contains Preact and uPlot, both under the MIT License: see licenses.txt. */",
  },
  outdir: out,
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg", "theme.js", "licenses.txt"]) {
  copyFileSync(join(here, "public", name), join(out, name));
}
