// Runs one subject in a process of its own and hands its report to the runner.
//
//   node dist/test/bench/subject-process.js NAME SETTINGS-AS-JSON

import { subjects, type SubjectName } from "./subjects/index.js";
import type { Settings } from "./subject.js";

const [name = "", settings = "{}"] = process.argv.slice(2);
const subject = await subjects[name as SubjectName]();
const given = JSON.parse(settings) as Settings;
const known = subject.contenders ?? [];
for (const contender of given.only)
  if (!known.includes(contender))
    throw new Error(
      `${name} has no contender ${contender} that can be run alone; it has ${known.join(", ") || "none"}`,
    );
const report = await subject.run(given);
process.send?.({ title: subject.title, report }, () => {
  process.disconnect();
});
