import { describe, expect, test } from "@jest/globals";
import {
  parseQueriesBody,
  parseQueryObject,
  parseViewBody,
  parseViewQuery,
  QueryError,
  type ViewQuery,
} from "../../../indexer/query/index.js";

function parse(query: string, body?: string): ViewQuery {
  return parseViewQuery(
    new URLSearchParams(query),
    body === undefined ? undefined : parseViewBody(body),
  );
}

function refusal(query: string, body?: string): string {
  try {
    parse(query, body);
  } catch (error) {
    if (error instanceof QueryError) return `${error.status} ${error.error}: ${error.reason}`;
    throw error;
  }
  return "accepted";
}

describe("parameters of a query string", () => {
  test("defaults hold where nothing is given", () => {
    expect(parse("")).toEqual({
      inclusiveEnd: true,
      descending: false,
      limit: Infinity,
      skip: 0,
      includeDocs: false,
      attachments: false,
      attEncodingInfo: false,
      update: true,
      stable: false,
      updateSeq: false,
      sorted: true,
      explain: false,
    });
  });

  test("every parameter and alias is read", () => {
    expect(
      parse(
        "start_key=1&end_key=2&start_key_doc_id=a&end_key_doc_id=b&inclusive_end=FALSE&descending=True" +
          "&limit=%2B5&skip=007&reduce=false&group=true&group_level=2&include_docs=true&conflicts=true" +
          "&attachments=true&att_encoding_info=true&update=lazy&stable=true&update_seq=true&sorted=false&explain=true",
      ),
    ).toEqual({
      startKey: "1",
      endKey: "2",
      startKeyDocId: "a",
      endKeyDocId: "b",
      inclusiveEnd: false,
      descending: true,
      limit: 5,
      skip: 7,
      reduce: false,
      group: true,
      groupLevel: 2,
      includeDocs: true,
      conflicts: true,
      attachments: true,
      attEncodingInfo: true,
      update: "lazy",
      stable: true,
      updateSeq: true,
      sorted: false,
      explain: true,
    });
  });

  test("the last of a repeated parameter wins", () => {
    expect(parse("limit=1&limit=2&startkey=1&start_key=2")).toMatchObject({
      limit: 2,
      startKey: "2",
    });
  });

  test("key sets both ends where it stands", () => {
    expect(parse('key="a"&endkey="b"')).toMatchObject({ startKey: '"a"', endKey: '"b"' });
    expect(parse('endkey="b"&key="a"')).toMatchObject({ startKey: '"a"', endKey: '"a"' });
  });

  test("a list of one key is a key, an empty or longer one a list", () => {
    expect(parse('keys=[ {"b":1,"1":2} ]')).toMatchObject({
      startKey: '{"b":1,"1":2}',
      endKey: '{"b":1,"1":2}',
    });
    expect(parse("keys=[ ]").keys).toEqual([]);
    expect(parse('keys=["a,]", [1, 2] ,{"x":"\\"}"}]').keys).toEqual([
      '"a,]"',
      "[1, 2]",
      '{"x":"\\"}"}',
    ]);
    expect(parse('keys={"a":1}').keys).toBe("invalid");
    expect(parse("keys=null").keys).toBe("invalid");
  });

  test("unknown and nameless parameters are ignored", () => {
    expect(refusal("foo=bar&=x&callback=f&explain=perhaps")).toBe("accepted");
  });

  test("stale stands for stable and update", () => {
    expect(parse("stale=ok")).toMatchObject({ stable: true, update: false });
    expect(parse("stale=update_after")).toMatchObject({ stable: true, update: "lazy" });
    expect(parse("stale=ok&update=true")).toMatchObject({ stable: true, update: true });
  });

  test("an integer beyond 2^53 is as good as no limit", () => {
    expect(parse("limit=99999999999999999999").limit).toBe(Number.MAX_SAFE_INTEGER);
    expect(Object.is(parse("skip=-0").skip, 0)).toBe(true);
  });

  test.each([
    ["limit=ten", '400 query_parse_error: Invalid value for integer: "ten"'],
    ["limit=1.5", '400 query_parse_error: Invalid value for integer: "1.5"'],
    ["limit=", "400 query_parse_error: Invalid value for integer: []"],
    ["skip=-1", '400 query_parse_error: Invalid value for positive integer: "-1"'],
    ["group_level=%22", '400 query_parse_error: Invalid value for integer: "\\""'],
    ["group_level=%E2%82%AC", "400 query_parse_error: Invalid value for integer: [226,130,172]"],
    ["group_level=%C3%A9", '400 query_parse_error: Invalid value for integer: "é"'],
    ["descending=1", '400 query_parse_error: Invalid boolean parameter: "1"'],
    ["reduce=maybe", '400 query_parse_error: Invalid boolean parameter: "maybe"'],
    ["sorted=", "400 query_parse_error: Invalid boolean parameter: []"],
    ["stale=maybe", "400 query_parse_error: Invalid value for `stale`."],
    ["stable=1", "400 query_parse_error: Invalid value for `stable`."],
    ["update=perhaps", "400 query_parse_error: Invalid value for `update`."],
    ["key=abc", "400 bad_request: invalid UTF-8 JSON"],
    ["startkey=[1,", "400 bad_request: invalid UTF-8 JSON"],
    ["end_key=", "400 bad_request: invalid UTF-8 JSON"],
    ["limit=x&keys=[", "400 bad_request: invalid UTF-8 JSON"],
    ["limit=x&key=[", '400 query_parse_error: Invalid value for integer: "x"'],
    ["partition=", "400 illegal_partition: Partition must not be empty"],
    ["partition=_a", "400 illegal_partition: Partition must not start with an underscore"],
    ["partition=a:b", "400 illegal_partition: Partition must not contain a colon"],
  ])("%s is refused", (query, wanted) => {
    expect(refusal(query)).toBe(wanted);
  });

  test("the partition of the path and of the query string must agree", () => {
    expect(parseViewQuery([["partition", "p"]], undefined, { partition: "p" }).partition).toBe("p");
    expect(() => parseViewQuery([["partition", "q"]], undefined, { partition: "p" })).toThrow(
      "Conflicting value for `partition` in query string",
    );
  });
});

describe("parameters of a body", () => {
  test("values are JSON, booleans may be strings, member order of keys survives", () => {
    const body = `{ "startkey" : {"b":1, "1":2} , "descending":"true", "limit": 3, "start_key_doc_id":"x\\u0041",
      "update":false, "stable":true, "reduce":false }`;
    expect(parse("", body)).toMatchObject({
      startKey: '{"b":1, "1":2}',
      descending: true,
      limit: 3,
      startKeyDocId: "xA",
      update: false,
      stable: true,
      reduce: false,
    });
  });

  test("the query string overrides the body, key by key", () => {
    expect(parse("limit=3&reduce=false", '{"limit":1,"skip":2}')).toMatchObject({
      limit: 3,
      skip: 2,
    });
    expect(parse('keys=["a"]', '{"keys":[]}')).toMatchObject({ keys: [], startKey: '"a"' });
  });

  test.each([
    ['{"limit":-1}', "400 query_parse_error: Invalid value for positive integer: -1"],
    ['{"limit":"5"}', '400 query_parse_error: Invalid value for integer: <<"5">>'],
    ['{"limit":1.5}', "400 query_parse_error: Invalid value for integer: 1.5"],
    ['{"limit":2.0}', "400 query_parse_error: Invalid value for integer: 2.0"],
    ['{"skip":null}', "400 query_parse_error: Invalid value for integer: null"],
    [
      '{"skip":{"a":[1,"b"]}}',
      '400 query_parse_error: Invalid value for integer: {[{<<"a">>,[1,<<"b">>]}]}',
    ],
    ['{"descending":"foo"}', '400 query_parse_error: Invalid boolean parameter: "foo"'],
    ['{"descending":1}', "400 query_parse_error: Invalid boolean parameter: 1"],
    ['{"keys":"a"}', "400 bad_request: `keys` member must be an array."],
    ['{"partition":5}', "400 illegal_partition: Partition must be a string"],
    [
      '{"queries":[]}',
      "400 bad_request: The `queries` parameter is no longer supported at this endpoint",
    ],
    ["[]", "400 bad_request: Request body must be a JSON object"],
    ["", "400 bad_request: invalid UTF-8 JSON"],
    ['{"a":1,}', "400 bad_request: invalid UTF-8 JSON"],
    ["{}", "accepted"],
  ])("%s", (body, wanted) => {
    expect(refusal("", body)).toBe(wanted);
  });

  test("a program may hand over an object", () => {
    const query = parseQueryObject({ keys: ["a", "b"], limit: 2, skip: undefined });
    expect(query).toMatchObject({ keys: ['"a"', '"b"'], limit: 2, skip: 0 });
  });

  test("queries come as raw members, entries that are no objects as nothing", () => {
    expect(parseQueriesBody('{"queries":[ {"key" : [1, 2]}, 5, {} ]}')).toEqual([
      { members: [["key", "[1, 2]"]] },
      undefined,
      { members: [] },
    ]);
    expect(() => parseQueriesBody("{}")).toThrow("POST body must include `queries` parameter.");
    expect(() => parseQueriesBody('{"queries":{}}')).toThrow("`queries` member must be an array.");
  });
});

describe("what is JSON to CouchDB's parser", () => {
  const INVALID = "400 bad_request: invalid UTF-8 JSON";
  const quoted = (text: string): string => `key=${encodeURIComponent(text)}`;

  test.each([
    '"\\ud800"',
    '"\\uD83D"',
    '"a\\udc00"',
    '"\\ud800\\ud800\\udc00"',
    '"\\ud83dx\\ude00"',
    '"\\ude00\\ud83d"',
    '{"\\udbff":1}',
    '["\\\\",["\\ud912"]]',
    "1e400",
    "-1E+309",
    "[1,[2.5e999]]",
    `1${"0".repeat(400)}.0`,
  ])("%s is none", (text) => {
    expect(refusal(quoted(text))).toBe(INVALID);
    expect(refusal(`keys=${encodeURIComponent(`[1,${text}]`)}`)).toBe(INVALID);
    expect(refusal("", `{"startkey":${text}}`)).toBe(INVALID);
    // The body is read as a whole.
    expect(refusal("", `{"unknown":[${text}]}`)).toBe(INVALID);
  });

  test.each([
    '"\\ud83d\\ude00"',
    '"\\uD83D\\uDE00\\ud83d\\ude00"',
    // An escaped backslash, and what follows it is plain text.
    '"\\\\ud800"',
    '"1e400"',
    '["\\"1e400"]',
    "1.5e308",
    "0e400",
    "1e-400",
    "9".repeat(400),
  ])("%s is some", (text) => {
    expect(refusal(quoted(text))).toBe("accepted");
    expect(refusal("", `{"startkey":${text}}`)).toBe("accepted");
  });
});
