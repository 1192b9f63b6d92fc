// Follows 200 commands in 20 sandboxes at once through one process.
import assert from "node:assert/strict";
import { Client } from "@pandastack/sdk";

const sandboxes = 20, streams = 200, lines = 50;
const client = new Client({ timeoutMs: 120_000 });
const range = (n) => Array.from({ length: n }, (_, i) => i);
const made = await Promise.all(range(sandboxes).map(() => client.sandboxes.create({ template: "minimal" })));
try {
  let open = 0, allOpen;
  const all = new Promise((resolve) => { allOpen = resolve; });
  const follow = async (n) => {
    let out = "", err = "";
    const script = `echo start; while ! [ -e /tmp/go ]; do sleep 5; done; i=0; while [ $i -lt ${lines} ]; do echo ${n}-$i; echo e$i >&2; i=$((i+1)); done; exit ${n % 100}`;
    const code = await made[n % sandboxes].execStream(script, {
      onStdout: (c) => { if (out === "" && ++open === streams) allOpen(); out += c; }, onStderr: (c) => { err += c; },
    });
    assert.equal(code, n % 100);
    assert.equal(out, "start\n" + range(lines).map((i) => `${n}-${i}\n`).join(""));
    assert.equal(err, range(lines).map((i) => `e${i}\n`).join(""));
  };
  const ended = Promise.all(range(streams).map(follow));
  await Promise.race([all, ended]); // a stream that fails ends the wait
  console.log("all streams are open");
  await Promise.all(made.map((sb) => sb.filesystem.write("/tmp/go", "")));
  await ended;
} finally {
  await Promise.all(made.map((sb) => sb.kill()));
}
console.log(`${streams} streams in ${made.length} sandboxes`);
