// Makes Jest, Vitest and Mocha also write a report. Node loads this file before any program; it acts
// only in these. For Mocha it is a reporter that wraps the chosen one, so the usual output stays.
"use strict";
const path = require("node:path");

const folder = process.env.NIGHTSHIFT_REPORTS || "";
const report = path.join(folder, `node-${process.pid}`);
const program = path.basename(process.argv[1] || "").replace(/\.[cm]?js$/, "");
const options = {
  jest: ["--json", `--outputFile=${report}.json`],
  vitest: ["--reporter=default", "--reporter=json", `--outputFile.json=${report}.json`],
  mocha: ["--reporter", __filename],
};

function MochaReporter(runner, settings) {
  const search = { paths: [process.cwd(), process.argv[1]] };
  const { reporters } = require(require.resolve("mocha", search));
  const Chosen = reporters[reporter] || load(reporter, search) || reporters.Spec;
  const chosen = new Chosen(runner, settings); // it listens to the runner
  if (chosen.done) this.done = (failures, end) => chosen.done(failures, end);
  const cases = [];
  const record = (outcome) => (test) => {
    const file = path.relative(process.cwd(), test.file || "");
    cases.push(`${JSON.stringify([`${file}::${test.fullTitle()}`, outcome])}\n`);
  };
  runner.on("pass", record("passed"));
  runner.on("fail", record("failed"));
  runner.on("pending", record("skipped"));
  runner.once("end", () => require("node:fs").writeFileSync(`${report}.jsonl`, cases.join("")));
}

function load(name, search) {
  try {
    return name && require(require.resolve(name, search));
  } catch {
    return undefined; // Mocha would abort here, but the report matters more
  }
}

// Removes all of `-R name`, `--reporter name` and `--reporter=name`, and returns the last name.
function takeReporter(words) {
  let name = "";
  for (let at; (at = words.findIndex((word) => /^(-R|--reporter)(=|$)/.test(word))) >= 0; ) {
    const [word, next] = words.splice(at, words[at].includes("=") ? 1 : 2);
    name = word.includes("=") ? word.slice(word.indexOf("=") + 1) : next || "";
  }
  return name;
}

let reporter = "";
if (folder && options[program]) {
  if (program === "mocha") reporter = takeReporter(process.argv);
  process.argv.push(...options[program]);
}
module.exports = MochaReporter;
