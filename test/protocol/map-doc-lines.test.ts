import { expect, test } from "@jest/globals";
import fc from "fast-check";
import { mapDocLines } from "../../protocol/index.js";

test("makes the command line of each document, in order, wherever the documents lie in the chunk", () => {
  fc.assert(
    fc.property(
      fc.array(fc.jsonValue({ maxDepth: 2 }), { maxLength: 30 }),
      fc.nat({ max: 5 }),
      (documents, gap) => {
        const texts = documents.map((document) => JSON.stringify(document));
        const padding = " ".repeat(gap);
        const chunk = Buffer.from(texts.map((text) => padding + text).join("\n"));
        const starts = new Uint32Array(texts.length + 3);
        const ends = new Uint32Array(texts.length + 3);
        let position = 0;
        for (const [index, text] of texts.entries()) {
          starts[index] = position + gap;
          position = ends[index] = position + gap + Buffer.byteLength(text);
          position += 1;
        }

        const lines = mapDocLines(chunk, starts, ends, texts.length);

        expect(Buffer.from(lines).toString()).toBe(
          texts.map((text) => `["map_doc",${text}]\n`).join(""),
        );
      },
    ),
  );
});

test("gives a buffer of its own", () => {
  const lines = mapDocLines(Buffer.from("{}"), Uint32Array.of(0), Uint32Array.of(2), 1);

  expect(lines.byteOffset).toBe(0);
  expect(lines.buffer.byteLength).toBe(lines.length);
});
