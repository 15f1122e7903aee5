import { describe, expect, test } from "@jest/globals";
import {
  encodeCommand,
  type HostCommand,
  readAcknowledgement,
  readMapReply,
  readReduceReply,
} from "../../protocol/index.js";

function faultAt(path: string): unknown {
  return expect.objectContaining({ code: "PROTOCOL_BAD_REPLY", path });
}

describe("encodeCommand", () => {
  test.each<[HostCommand, string]>([
    [["reset"], '["reset"]\n'],
    [
      ["reset", { reduce_limit: "log", timeout: 5000 }],
      '["reset",{"reduce_limit":"log","timeout":5000}]\n',
    ],
    [["add_fun", "function(doc){\n  emit(1)\n}"], '["add_fun","function(doc){\\n  emit(1)\\n}"]\n'],
    [["map_doc", { _id: "é\ud800" }], '["map_doc",{"_id":"é\\ud800"}]\n'],
    [["reduce", ["f"], [[["k", "id"], 1]], ""], '["reduce",["f"],[[["k","id"],1]],""]\n'],
    [
      ["ddoc", "_design/d", ["shows", "s"], [null, {}]],
      '["ddoc","_design/d",["shows","s"],[null,{}]]\n',
    ],
    [["list_end"], '["list_end"]\n'],
  ])("writes %j on one line", (command, line) => {
    expect(Buffer.from(encodeCommand(command)).toString()).toBe(line);
  });

  test("refuses what is no command", () => {
    expect(() => encodeCommand([])).toThrow(TypeError);
    expect(() => encodeCommand([1])).toThrow(TypeError);
    expect(() => encodeCommand("reset" as unknown as string[])).toThrow(TypeError);
    expect(() => encodeCommand(["map_doc", 1n])).toThrow(TypeError);
  });
});

describe("readers of replies", () => {
  test("accept what the commands promise", () => {
    readAcknowledgement(true);
    expect(readMapReply([[["k", 1]], []], 2)).toEqual([[["k", 1]], []]);
    expect(readMapReply([], 0)).toEqual([]);
    expect(readReduceReply([true, [1, null]], 2)).toEqual([1, null]);
  });

  test("name the place of the fault", () => {
    expect(() => {
      readAcknowledgement(1);
    }).toThrow(faultAt("reply"));
    expect(() => readMapReply(true, 1)).toThrow(faultAt("reply"));
    expect(() => readMapReply([[]], 2)).toThrow(faultAt("reply"));
    expect(() => readMapReply([[], {}], 2)).toThrow(faultAt("reply[1]"));
    expect(() => readMapReply([[["k", 1], ["k"]]], 1)).toThrow(faultAt("reply[0][1]"));
    expect(() => readReduceReply([false, [1]], 1)).toThrow(faultAt("reply[0]"));
    expect(() => readReduceReply([true, [1]], 2)).toThrow(faultAt("reply[1]"));
    expect(() => readReduceReply({ a: "x".repeat(1000) }, 2)).toThrow(
      /reply should be an array, not .{80}$/,
    );
  });
});
