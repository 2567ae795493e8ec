// Has Jest, Vitest and Mocha leave a report as well. Node loads it before a program; it only acts
// where that program is one of them. For Mocha it is the reporter itself, with the usual output.
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
  const { Spec } = require(require.resolve("mocha", find)).reporters;
  new Spec(runner, options); // it listens to the runner
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

if (folder && added[program]) {
  const chosen = program === "mocha" && process.argv.some((word) => /^(-R|--reporter)/.test(word));
  if (!chosen) process.argv.push(...added[program]);
}
module.exports = MochaReporter;
