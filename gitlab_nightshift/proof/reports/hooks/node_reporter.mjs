// node:test's own JUnit report, in a file of this process: several runs of one command would
// overwrite each other's.
import { appendFileSync } from "node:fs";
import { junit } from "node:test/reporters";

export default async function* report(events) {
  const file = `${process.env.NIGHTSHIFT_REPORTS}/node-${process.pid}.xml`;
  for await (const text of junit(events)) appendFileSync(file, text);
  yield "";
}
