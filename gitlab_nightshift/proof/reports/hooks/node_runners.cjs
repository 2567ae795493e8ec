// Makes Jest, Vitest and Mocha also write a report. Node loads this file before any program; it acts
// only in these. For Mocha it is a reporter that wraps the chosen one, so the usual output stays.
"use strict";
const path = require("node:path");

const folder = process.env.NIGHTSHIFT_REPORTS || "";
const report = path.join(folder, `node-${process.pid}`);
const program = path.basename(process.argv[1] || "").replace(/\.[cm]?js$/, "");
const added = {
  jest: ["--json", `--outputFile=${report}.json`],
  vitest: ["--reporter=default", "--reporter=json", `--outputFile.json=${report}.json`],
  mocha: ["--reporter", __filename],
};

function MochaReporter(runner, options) {
  const find = { paths: [process.cwd(), process.argv[1]] };
  const { reporters } = require(require.resolve("mocha", find));
  const Usual = reporters[asked] || load(asked, find) || reporters.Spec;
  const usual = new Usual(runner, options); // it listens to the runner
  if (usual.done) this.done = (failures, end) => usual.done(failures, end);
  const cases = [];
  const note = (outcome) => (test) => {
    const file = path.relative(process.cwd(), test.file || "");
    cases.push(`${JSON.stringify([`${file}::${test.fullTitle()}`, outcome])}\n`);
  };
  runner.on("pass", note("passed"));
  runner.on("fail", note("failed"));
  runner.on("pending", note("skipped"));
  runner.once("end", () => require("node:fs").writeFileSync(`${report}.jsonl`, cases.join("")));
}

function load(name, find) {
  try {
    return name && require(require.resolve(name, find));
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

let asked = "";
if (folder && added[program]) {
  if (program === "mocha") asked = takeReporter(process.argv);
  process.argv.push(...added[program]);
}
module.exports = MochaReporter;
