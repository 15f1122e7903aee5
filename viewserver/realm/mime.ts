// `registerType` and `provides`: content negotiation of shows and lists (PROTOCOL §15). Evaluated inside the documents' realm.
import type { Describe, Mime } from "./types.js";

export function createMime(describe: Describe): Mime {
  const apply = Reflect.apply as (f: unknown, self: unknown, args: unknown[]) => unknown;
  // Tables of the process: they survive reset, as in couchjs.
  const typesByKey = new Map<string, string[]>();
  const keysByType = new Map<string, string>();
  let providers: { key: string; fn: unknown }[] = [];
  let chosenType: string | undefined;

  const register = (key: string, ...types: string[]): void => {
    typesByKey.set(key, types);
    for (const type of types) keysByType.set(type, key);
  };
  register("all", "*/*");
  register("text", "text/plain; charset=utf-8", "txt");
  register("html", "text/html; charset=utf-8");
  register("xhtml", "application/xhtml+xml", "xhtml");
  register("xml", "application/xml", "text/xml", "application/x-xml");
  register("js", "text/javascript", "application/javascript", "application/x-javascript");
  register("css", "text/css");
  register("ics", "text/calendar");
  register("csv", "text/csv");
  register("rss", "application/rss+xml");
  register("atom", "application/atom+xml");
  register("yaml", "application/x-yaml", "text/yaml");
  register("multipart_form", "multipart/form-data");
  register("url_encoded_form", "application/x-www-form-urlencoded");
  register("json", "application/json", "text/x-json");

  interface MediaRange {
    type: string;
    subtype: string;
    params: Map<string, string>;
    quality: number;
  }
  const parseRange = (text: string): MediaRange => {
    const parts = text.split(";");
    const full = (parts[0] as string).trim();
    const slash = (full === "*" ? "*/*" : full).split("/");
    const params = new Map<string, string>();
    for (const part of parts.slice(1)) {
      const eq = part.indexOf("=");
      if (eq > 0) params.set(part.slice(0, eq).trim(), part.slice(eq + 1).trim());
    }
    const q = params.has("q") ? Number(params.get("q")) : 1;
    params.delete("q");
    return {
      type: (slash[0] ?? "").trim(),
      subtype: (slash[1] ?? "").trim(),
      params,
      quality: q >= 0 && q <= 1 ? q : 1,
    };
  };
  /** How well the accepted range fits the offered type; -1 when it does not. */
  const fitness = (offered: MediaRange, range: MediaRange): number => {
    const typeFits = range.type === offered.type || range.type === "*" || offered.type === "*";
    const subtypeFits =
      range.subtype === offered.subtype || range.subtype === "*" || offered.subtype === "*";
    if (!typeFits || !subtypeFits) return -1;
    let fit = range.type === offered.type ? 100 : 0;
    if (range.subtype === offered.subtype) fit += 10;
    for (const [name, value] of range.params) if (offered.params.get(name) === value) fit++;
    return fit;
  };
  const bestMatch = (offers: string[], accept: string): string | undefined => {
    const ranges = accept.split(",").map(parseRange);
    let best: string | undefined;
    let bestFit = -1;
    let bestQuality = 0;
    for (const offer of offers) {
      const offered = parseRange(offer);
      let fit = -1;
      let quality = 0;
      for (const range of ranges) {
        const f = fitness(offered, range);
        if (f > fit) {
          fit = f;
          quality = range.quality;
        }
      }
      if (fit < 0 || quality === 0) continue;
      if (fit > bestFit || (fit === bestFit && quality > bestQuality)) {
        best = offer;
        bestFit = fit;
        bestQuality = quality;
      }
    }
    return best;
  };
  const find = (key: string): { key: string; fn: unknown } | undefined => {
    for (const p of providers) if (p.key === key) return p;
    return undefined;
  };
  const refuse = (asked: string): never => {
    const types: string[] = [];
    for (const p of providers) for (const t of typesByKey.get(p.key) ?? [p.key]) types.push(t);
    describe.raise([
      "error",
      "not_acceptable",
      `Content-Type ${asked} not supported, try one of: ${types.join(", ")}`,
    ]);
  };

  return {
    globals: {
      registerType: register,
      provides: (key: unknown, fn: unknown): void => {
        providers.push({ key: describe.text(key), fn });
      },
    },
    reset() {
      providers = [];
      chosenType = undefined;
    },
    used: () => providers.length > 0,
    contentType: () => chosenType,
    run(req, ddoc) {
      const request = (req ?? {}) as { query?: { format?: string }; headers?: { Accept?: string } };
      const format = request.query?.format;
      const accept = request.headers?.Accept;
      let chosen: { key: string; fn: unknown } | undefined;
      if (format) {
        chosen = find(format);
        chosenType = typesByKey.get(format)?.[0];
      } else if (accept) {
        // Reversed, so that of equals the later registered wins.
        const offers: string[] = [];
        for (const p of providers) for (const t of typesByKey.get(p.key) ?? []) offers.unshift(t);
        const type = bestMatch(offers, accept);
        if (type !== undefined) {
          chosen = find(keysByType.get(type) ?? "");
          chosenType = type;
        }
      } else {
        chosen = providers[0];
        chosenType = chosen && typesByKey.get(chosen.key)?.[0];
      }
      if (chosen === undefined) return refuse(format ?? accept ?? "undefined");
      return apply(chosen.fn, ddoc, []);
    },
  };
}
