// Loads a module of web/ into node, bundled as for the page.
// Used by the unit tests; knows nothing of what the modules do.

import { execFileSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const web = fileURLToPath(new URL("..", import.meta.url));

export async function load(name) {
  const source = execFileSync("esbuild", [name, "--bundle", "--format=esm", "--target=es2022"], {
    cwd: web,
  });
  return import(`data:text/javascript;base64,${source.toString("base64")}`);
}
