// Runs an exec and a stream in a sandbox that somebody deletes meanwhile, and says how they end.
import { Client } from "@pandastack/sdk";

const sb = await new Client().sandboxes.get(process.argv[2]);
const attempt = (promise) => promise.then(
  (value) => `returned ${JSON.stringify(value)}`,
  (e) => `${e.constructor.name} ${e.message.split(":")[0]}`,
);
const [exec, stream] = await Promise.all([
  attempt(sb.exec("touch /tmp/exec; sleep 600")), attempt(sb.execStream("touch /tmp/stream; sleep 600")),
]);
console.log(`exec: ${exec}\nstream: ${stream}`);
