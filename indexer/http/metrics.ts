// Counters for `/_metrics`, in Prometheus' text format.

export class Metrics {
  /** Requests being answered. */
  active = 0;
  readonly #byStatus = new Map<number, number>();
  #rows = 0;

  begin(): void {
    this.active++;
  }

  end(status: number): void {
    this.active--;
    this.#byStatus.set(status, (this.#byStatus.get(status) ?? 0) + 1);
  }

  addRows(count: number): void {
    this.#rows += count;
  }

  /** @param gauges - further values by metric name, with a help text each. */
  text(gauges: readonly { readonly name: string; readonly help: string; readonly value: number; readonly labels?: string }[]): string {
    const lines = [
      "# HELP viewmill_requests_total Requests answered, by status.",
      "# TYPE viewmill_requests_total counter",
      ...[...this.#byStatus].map(([status, count]) => `viewmill_requests_total{status="${status}"} ${count}`),
      "# HELP viewmill_requests_active Requests being answered.",
      "# TYPE viewmill_requests_active gauge",
      `viewmill_requests_active ${this.active}`,
    ];
    let last = "";
    for (const { name, help, value, labels } of gauges) {
      if (name !== last) lines.push(`# HELP ${name} ${help}`, `# TYPE ${name} gauge`);
      last = name;
      lines.push(`${name}${labels === undefined ? "" : `{${labels}}`} ${value}`);
    }
    return `${lines.join("\n")}\n`;
  }
}
