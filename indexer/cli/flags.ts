// Flags as the argument parser hands them over.

export interface CommonFlags {
  readonly source?: string;
  readonly ddoc?: readonly string[];
  readonly append?: boolean;
  readonly idField?: string;
  readonly partitioned?: boolean;
  readonly mapIn?: "threads" | "processes";
  readonly server?: string;
  readonly threads?: number;
  readonly timeout?: number;
  readonly heap?: number;
  readonly memory?: number;
  readonly rowsMax?: number;
  readonly outputMax?: number;
  readonly logLinesMax?: number;
  readonly cache?: number;
  readonly strict?: boolean;
  readonly maxErrors?: number;
  readonly minDocs?: number;
  readonly minBytes?: number;
  readonly minFree?: number;
  readonly chunkBytes?: number;
  readonly progressInterval?: number;
  readonly sync?: "end" | "interval" | "commit";
  readonly syncInterval?: number;
  readonly lineMax?: number;
  readonly rebuild?: boolean;
  readonly json?: boolean;
  readonly quiet?: boolean;
}
