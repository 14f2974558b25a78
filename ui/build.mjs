// Builds the page into the package: the same sources and lock give the same bytes, and the build says which they were.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { copyFileSync, mkdirSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const out = process.argv[2] ?? join(here, "../src/muster/ui/static");

/** What the build is made from, by names in order; tests/ui/test_build.py makes the same of what is there. */
function digest() {
  const within = (folder) =>
    readdirSync(join(here, folder), { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile())
      .map((entry) => join(entry.parentPath, entry.name).slice(here.length + 1));
  const made = createHash("sha256");
  for (const name of ["build.mjs", "package-lock.json", ...within("public"), ...within("src")].sort())
    made.update(`${name}\0`).update(readFileSync(join(here, name))).update("\0");
  return made.digest("hex");
}

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
    js: `/* Muster dashboard, Apache-2.0. Contains Preact and uPlot, both under the MIT License: see licenses.txt. Sources: ${digest()} */`,
  },
  outdir: out,
  logLevel: "warning",
});
for (const name of readdirSync(join(here, "public"))) copyFileSync(join(here, "public", name), join(out, name));
