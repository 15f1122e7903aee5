// `npm run example`: builds an index over the bookshop and asks it a few questions, printing each command as a person would type it.

import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";

const root = fileURLToPath(new URL("..", import.meta.url));
const program = fileURLToPath(new URL("../dist/indexer/cli/main.js", import.meta.url));
const dir = ".viewmill/bookshop";
const shop = "examples/bookshop";

/** @param {string[]} args */
function viewmill(...args) {
  const typed = args.map((arg) => (/^[\w./:-]+$/.test(arg) ? arg : `'${arg}'`)).join(" ");
  process.stdout.write(`\n$ viewmill ${typed}\n`);
  const { status } = spawnSync(process.execPath, [program, ...args], {
    cwd: root,
    stdio: "inherit",
  });
  if (status !== 0) process.exit(status ?? 1);
}

viewmill(
  ...["build", dir, "--source", `${shop}/orders.ndjson`],
  ...["--ddoc", `${shop}/orders.ddoc.mjs`, `${shop}/customers.ddoc.json`],
);
viewmill("query", dir, "orders/sold", "--group-level", "1");
viewmill("query", dir, "orders/revenue", "--group-level", "2", "--start-key", "[2024]");
