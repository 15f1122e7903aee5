// Plots as SVG, drawn by Vega-Lite (installed with the rivals).

import { pathToFileURL } from "node:url";
import { createRequire } from "node:module";

export interface Plot {
  readonly title: string;
  readonly x: string;
  readonly y: string;
  readonly series: readonly { readonly name: string; readonly x: number; readonly y: number }[];
}

interface Vega {
  parse(spec: unknown): unknown;
  View: new (runtime: unknown, options: { renderer: string }) => { toSVG(): Promise<string> };
}

interface VegaLite {
  compile(spec: unknown): { readonly spec: unknown };
}

const require = createRequire(new URL("../../../test/bench/rivals/package.json", import.meta.url));

/** Lines with points, both axes logarithmic. */
export async function plotSvg({ title, x, y, series }: Plot): Promise<string> {
  const load = (name: string): Promise<unknown> =>
    import(pathToFileURL(require.resolve(name)).href);
  const vega = (await load("vega")) as Vega;
  const lite = (await load("vega-lite")) as VegaLite;
  const { spec } = lite.compile({
    title,
    width: 520,
    height: 320,
    background: "white",
    data: { values: series },
    mark: { type: "line", point: true },
    encoding: {
      x: { field: "x", type: "quantitative", scale: { type: "log" }, title: x },
      y: { field: "y", type: "quantitative", scale: { type: "log" }, title: y },
      color: { field: "name", type: "nominal", title: null },
    },
  });
  return new vega.View(vega.parse(spec), { renderer: "none" }).toSVG();
}
