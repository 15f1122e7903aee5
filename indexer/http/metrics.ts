// Counters for `/_metrics`, in Prometheus' text format. Each process counts for itself; they are added up where they are told.

import type { GroupInfo, IndexInfo } from "../view-index.js";

/** Upper bounds of the buckets of answer times, in seconds. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const;

/** What one process has counted; can be sent between processes. */
export interface Counters {
  readonly active: number;
  /** Requests answered, by status. */
  readonly byStatus: Readonly<Record<string, number>>;
  /** View queries by bucket of their time, the last without a bound. */
  readonly times: readonly number[];
  readonly seconds: number;
  readonly bytes: number;
}

export class Metrics {
  /** Requests being answered. */
  active = 0;
  /** Bytes of view answers, as text. */
  bytes = 0;
  readonly #byStatus = new Map<number, number>();
  readonly #times = new Array<number>(BUCKETS.length + 1).fill(0);
  #seconds = 0;

  begin(): void {
    this.active++;
  }

  end(status: number): void {
    this.active--;
    this.#byStatus.set(status, (this.#byStatus.get(status) ?? 0) + 1);
  }

  /** A view query was answered. */
  time(milliseconds: number): void {
    const seconds = milliseconds / 1000;
    let bucket = 0;
    while (bucket < BUCKETS.length && seconds > (BUCKETS[bucket] as number)) bucket++;
    this.#times[bucket] = (this.#times[bucket] as number) + 1;
    this.#seconds += seconds;
  }

  counters(): Counters {
    return {
      active: this.active,
      byStatus: Object.fromEntries(this.#byStatus),
      times: [...this.#times],
      seconds: this.#seconds,
      bytes: this.bytes,
    };
  }
}

export function addCounters(all: readonly Counters[]): Counters {
  const byStatus: Record<string, number> = {};
  const times = new Array<number>(BUCKETS.length + 1).fill(0);
  let active = 0;
  let seconds = 0;
  let bytes = 0;
  for (const one of all) {
    active += one.active;
    seconds += one.seconds;
    bytes += one.bytes;
    for (const [status, count] of Object.entries(one.byStatus))
      byStatus[status] = (byStatus[status] ?? 0) + count;
    for (const [i, count] of one.times.entries()) times[i] = (times[i] ?? 0) + count;
  }
  return { active, byStatus, times, seconds, bytes };
}

interface Gauge {
  readonly name: string;
  readonly help: string;
  readonly of: (group: GroupInfo) => number;
}

const GAUGES: readonly Gauge[] = [
  { name: "viewmill_index_bytes", help: "Size of the index file.", of: ({ sizes }) => sizes.file },
  {
    name: "viewmill_index_live_bytes",
    help: "Bytes of the index file that are in use.",
    of: ({ sizes }) => sizes.active,
  },
  {
    name: "viewmill_index_documents",
    help: "Documents in the index.",
    of: ({ documents }) => documents,
  },
  {
    name: "viewmill_index_errors",
    help: "Documents that failed to map.",
    of: ({ errors }) => errors,
  },
  {
    name: "viewmill_index_updating",
    help: "1 while the index is being updated.",
    of: ({ updaterRunning }) => (updaterRunning ? 1 : 0),
  },
  {
    name: "viewmill_index_waiting_clients",
    help: "Queries that wait for an update.",
    of: ({ waitingClients }) => waitingClients,
  },
];

export function textOfMetrics(counters: Counters, { groups }: IndexInfo): string {
  const lines = [
    "# HELP viewmill_requests_total Requests answered, by status.",
    "# TYPE viewmill_requests_total counter",
    ...Object.entries(counters.byStatus).map(
      ([status, count]) => `viewmill_requests_total{status="${status}"} ${count}`,
    ),
    "# HELP viewmill_requests_active Requests being answered.",
    "# TYPE viewmill_requests_active gauge",
    `viewmill_requests_active ${counters.active}`,
    "# HELP viewmill_query_text_bytes_total Characters of view answers.",
    "# TYPE viewmill_query_text_bytes_total counter",
    `viewmill_query_text_bytes_total ${counters.bytes}`,
    "# HELP viewmill_query_seconds Time from a view query to the end of its answer.",
    "# TYPE viewmill_query_seconds histogram",
  ];
  let sum = 0;
  for (const [i, bound] of BUCKETS.entries()) {
    sum += counters.times[i] ?? 0;
    lines.push(`viewmill_query_seconds_bucket{le="${bound}"} ${sum}`);
  }
  sum += counters.times[BUCKETS.length] ?? 0;
  lines.push(`viewmill_query_seconds_bucket{le="+Inf"} ${sum}`);
  lines.push(
    `viewmill_query_seconds_sum ${counters.seconds}`,
    `viewmill_query_seconds_count ${sum}`,
  );
  for (const { name, help, of } of GAUGES) {
    lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} gauge`);
    for (const group of groups)
      lines.push(`${name}{ddoc=${JSON.stringify(group.designDocument)}} ${of(group)}`);
  }
  return `${lines.join("\n")}\n`;
}
