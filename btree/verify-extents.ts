// The places of all records that a commit reaches: to prove that each is reached once and that none overlaps another. 24 bytes a
// record, so that files of millions of nodes can be proved.

/** Two records that cannot both be right. */
export interface Overlap {
  readonly offset: number;
  readonly tree: string | undefined;
  readonly what: string;
}

const STRIDE = 3;

/** Collects extents, then compares neighbours. */
export class ExtentList {
  /** Offset, size, and number of the tree, for each record. */
  #extents = new Float64Array(1024 * STRIDE);
  #count = 0;
  #bytes = 0;
  readonly #trees: (string | undefined)[] = [];

  /** Bytes of all records added. */
  get bytes(): number {
    return this.#bytes;
  }

  add(offset: number, size: number, tree: string | undefined): void {
    if (this.#count * STRIDE === this.#extents.length) {
      const grown = new Float64Array(this.#extents.length * 2);
      grown.set(this.#extents);
      this.#extents = grown;
    }
    // Records of one tree come together.
    if (this.#trees.length === 0 || this.#trees.at(-1) !== tree) this.#trees.push(tree);
    const at = this.#count * STRIDE;
    this.#extents[at] = offset;
    this.#extents[at + 1] = size;
    this.#extents[at + 2] = this.#trees.length - 1;
    this.#count++;
    this.#bytes += size;
  }

  /** One for each record that begins before another ends. */
  overlaps(): Overlap[] {
    const extents = this.#extents;
    const order = new Uint32Array(this.#count);
    for (let i = 0; i < order.length; i++) order[i] = i * STRIDE;
    order.sort((a, b) => (extents[a] as number) - (extents[b] as number));
    const found: Overlap[] = [];
    let widest = -1;
    let end = 0;
    for (const at of order) {
      const offset = extents[at] as number;
      const size = extents[at + 1] as number;
      if (widest >= 0 && offset < end) {
        const other = extents[widest] as number;
        const otherTree = this.#trees[extents[widest + 2] as number];
        const by = otherTree === undefined ? "the roots record" : `tree ${otherTree}`;
        found.push({
          offset,
          tree: this.#trees[extents[at + 2] as number],
          what:
            other === offset
              ? `the record is reached twice, also from ${by}`
              : `the record overlaps the one at ${other}, reached from ${by}`,
        });
      }
      if (offset + size > end) {
        end = offset + size;
        widest = at;
      }
    }
    return found;
  }
}
