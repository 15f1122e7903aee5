// Runs one subject in a process of its own and hands its report to the runner.
//
//   node dist/test/bench/subject-process.js NAME SETTINGS-AS-JSON

import { subjects, type SubjectName } from "./subjects/index.js";
import type { Settings } from "./subject.js";

const [name = "", settings = "{}"] = process.argv.slice(2);
const subject = await subjects[name as SubjectName]();
const report = await subject.run(JSON.parse(settings) as Settings);
process.send?.({ title: subject.title, report }, () => {
  process.disconnect();
});
