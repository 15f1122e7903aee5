// Asks a model view the way an HTTP client asks a server, and gives back status and body.

import {
  parseViewBody,
  parseViewQuery,
  QueryError,
  resolveViewQuery,
  runViewQuery,
  type ViewAnswer,
} from "../../indexer/query/index.js";
import type { ModelView } from "./view-model.js";

export interface Reply {
  readonly status: number;
  readonly body: Record<string, unknown>;
}

/** The answer of a query string (`key="a"&limit=2`, not encoded) and, for a POST, the text of its body. */
export function answerOf(view: ModelView, query: string, body?: string): ViewAnswer {
  const params = query === "" ? [] : query.split("&").map(splitParameter);
  const parsed = parseViewQuery(params, body === undefined ? undefined : parseViewBody(body));
  return runViewQuery(resolveViewQuery(parsed, view), view.context);
}

function splitParameter(text: string): [string, string] {
  const at = text.indexOf("=");
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + 1)];
}

export async function textOf(answer: ViewAnswer): Promise<string> {
  let text = "";
  for await (const chunk of answer.text()) text += chunk;
  return text;
}

export async function ask(view: ModelView, query: string, body?: string): Promise<Reply> {
  try {
    const text = await textOf(answerOf(view, query, body));
    return { status: 200, body: JSON.parse(text) as Record<string, unknown> };
  } catch (error) {
    if (!(error instanceof QueryError)) throw error;
    return { status: error.status, body: { error: error.error, reason: error.reason } };
  }
}

/** Rows in short: `key<id>=value`, or `key=value` of a reduce. */
export async function rowsOf(view: ModelView, query: string, body?: string): Promise<string[]> {
  const rows: string[] = [];
  for await (const { id, key, value } of answerOf(view, query, body).rows()) {
    rows.push(
      `${JSON.stringify(key)}${id === undefined ? "" : `<${id}>`}=${JSON.stringify(value)}`,
    );
  }
  return rows;
}

export async function reasonOf(view: ModelView, query: string, body?: string): Promise<string> {
  const { status, body: reply } = await ask(view, query, body);
  return status === 200 ? "200" : `${status} ${String(reply["error"])}: ${String(reply["reason"])}`;
}
