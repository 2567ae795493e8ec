// node:test's own JUnit report, in a file named after this process: several runs in one command
// would otherwise overwrite each other's.
import { appendFileSync } from "node:fs";
import { junit } from "node:test/reporters";

export default async function* report(events) {
  const file = `${process.env.NIGHTSHIFT_REPORTS}/node-${process.pid}.xml`;
  for await (const text of junit(events)) appendFileSync(file, text);
  yield "";
}
