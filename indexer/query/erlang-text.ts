// Parameter values as CouchDB's messages show them: printed with Erlang's ~p. Query string values are lists of bytes there,
// JSON strings are binaries; both print as text when every byte is printable Latin-1, else as numbers.

const utf8 = new TextEncoder();

function printable(bytes: Uint8Array): boolean {
  return bytes.every(
    (byte) =>
      (byte >= 0x20 && byte < 0x7f) || byte >= 0xa0 || (byte >= 8 && byte <= 13) || byte === 27,
  );
}

const ESCAPES: Readonly<Record<string, string>> = {
  '"': '\\"',
  "\\": "\\\\",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
  "\b": "\\b",
  "\f": "\\f",
  "\v": "\\v",
  "\u001b": "\\e",
};

function quoted(text: string): string {
  let out = '"';
  for (const char of text) out += ESCAPES[char] ?? char;
  return `${out}"`;
}

/** A value of a query string: `"ten"`, or `[]` when empty. */
export function erlangString(text: string): string {
  if (text === "") return "[]";
  const bytes = utf8.encode(text);
  return printable(bytes) ? quoted(text) : `[${bytes.join(",")}]`;
}

function binary(text: string): string {
  if (text === "") return "<<>>";
  const bytes = utf8.encode(text);
  return printable(bytes) ? `<<${quoted(text)}>>` : `<<${bytes.join(",")}>>`;
}

/** A value of a JSON body, `json` being its text: `-1`, `1.5`, `null`, `<<"5">>`, `{[{<<"a">>,1}]}`. */
export function erlangTerm(json: string): string {
  const value = JSON.parse(json) as unknown;
  // Erlang keeps 2.0 a float, and integers of any size exact.
  if (typeof value === "number") {
    if (/^-?[0-9]+$/.test(json)) return json;
    return Number.isInteger(value) ? value.toFixed(1) : String(value);
  }
  return term(value);
}

function term(value: unknown): string {
  if (typeof value === "string") return binary(value);
  if (Array.isArray(value)) return `[${value.map(term).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const members = Object.entries(value).map(
      ([name, member]) => `{${binary(name)},${term(member)}}`,
    );
    return `{[${members.join(",")}]}`;
  }
  return String(value);
}
