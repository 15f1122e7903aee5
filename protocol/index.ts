// The view-server protocol: framing, messages, transport and the pipelined client. See PROTOCOL.md.

export { ProtocolClient } from "./client.js";
export type {
  BatchOptions,
  ProtocolClientOptions,
  ProtocolClientState,
  ProtocolClientStats,
} from "./client-options.js";
export {
  type EmittedPairs,
  encodeCommand,
  readAcknowledgement,
  readMapReply,
  readReduceReply,
} from "./codec.js";
export {
  type BatchLog,
  type BatchReply,
  PROTOCOL_ERROR_CODES,
  ProtocolError,
  type ProtocolErrorCode,
  type ProtocolErrorDetails,
} from "./errors.js";
export { LINE_BYTES_MAX, LineSplitter, type LineSplitterOptions } from "./framing.js";
export { mapDocLines } from "./map-doc-lines.js";
export {
  type AddFunCommand,
  type AddLibCommand,
  type DdocCallCommand,
  type DdocFunctionKind,
  type DdocNewCommand,
  type ErrorReply,
  type FatalReply,
  type HostCommand,
  isLogLine,
  type JsonValue,
  type ListEndCommand,
  type ListRowCommand,
  type LogReply,
  type MapDocCommand,
  parseReply,
  type ReduceCommand,
  type ReduceRow,
  type RereduceCommand,
  type ResetCommand,
  type ResetConfig,
  type ServerReply,
  type ValueReply,
} from "./messages.js";
export { streamTransport, type Transport } from "./transport.js";
