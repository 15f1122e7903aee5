// What all parts of the server share.

import type { Metrics } from "./metrics.js";
import type { ViewService } from "./service.js";

export interface HttpContext {
  readonly service: ViewService;
  /** The database's name in URLs. */
  readonly db: string;
  readonly metrics: Metrics;
  readonly bodyBytesMax: number;
  /** A client that takes nothing for so long is dropped, in milliseconds. */
  readonly stallMs: number;
  /** Told in a header, where several processes answer. */
  readonly worker: string | undefined;
  /** True once the server is being closed: connections end with the answer that is under way. */
  readonly closing: () => boolean;
  /** Told of answers that failed for a reason of ours. */
  readonly onWarning: (message: string) => void;
}
