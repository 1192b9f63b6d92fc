// Every call of the JavaScript SDK that docs/dialects/panda.md says works, one after the other, and how those end that don't.
//
// What it sends is compared with requests-node.txt: keep it in one order and free of times, random numbers and polling.
import assert from "node:assert/strict";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import {
  AuthError, BadRequestError, Client, CommandError, NotFoundError, Sandbox, SandboxTimeout, ServerError,
} from "@pandastack/sdk";

async function raises(kind, text, call) {
  let got;
  try {
    got = await call();
  } catch (e) {
    assert.equal(e.constructor.name, kind.name, e.message);
    assert.ok(e.message.includes(text), e.message);
    return e;
  }
  assert.fail(`${kind.name} expected, got ${JSON.stringify(got)}`);
}

async function account(client) {
  const me = await client.me();
  assert.equal(me.workspace, "default");
  await raises(AuthError, "API key", () => new Client({ apiKey: "pds_wrong" }).me());
}

async function templates(client) {
  const list = await client.templates.list();
  const names = list.map((t) => t.name);
  for (const name of ["base", "code-interpreter", "ubuntu-24.04"]) assert.ok(names.includes(name), names.join());
  assert.equal((await client.templates.get("ubuntu-24.04")).base, "base");
  await raises(NotFoundError, "no such template", () => client.templates.get("org/none"));
  await raises(ServerError, "templates can't be built", () => client.templates.builds());
}

async function create(client) {
  const metadata = { tenant_id: "t-1", "café": "x".repeat(2000) };
  // The SDK's own default template, since none is named.
  const sb = await Sandbox.create({ metadata, ttlSeconds: 120 }, client);
  assert.equal(sb.status, "running");
  assert.deepEqual(sb.info.metadata, metadata);
  assert.deepEqual((await Sandbox.get(sb.id)).info, sb.info);
  assert.ok((await Sandbox.list()).some((s) => s.id === sb.id));
  const kept = await client.sandboxes.create({ template: "code-interpreter", persistent: true });
  assert.equal((await client.sandboxes.get(kept.id)).info.persistent, true);
  await client.sandboxes.delete(kept.id);
  await raises(NotFoundError, "no template nope", () => Sandbox.create({ template: "nope" }));
  await raises(BadRequestError, "from_snapshot", () => Sandbox.create({ fromSnapshot: "x" }));
  await raises(BadRequestError, "volumes", () => Sandbox.create({ volumes: [{ name: "v", readOnly: true }] }));
  await raises(BadRequestError, "ttl_seconds", () => Sandbox.create({ ttlSeconds: 60, persistent: true }));
  return sb;
}

async function execs(sb) {
  const r = await sb.exec("echo out; echo err >&2; exit 3");
  assert.deepEqual([r.stdout, r.stderr, r.exitCode, r.exit_code], ["out\n", "err\n", 3, 3]);
  assert.equal((await sb.commands.run("id -un; pwd", { timeoutSeconds: 30 })).stdout, "root\n/root\n");
  assert.equal((await raises(CommandError, "exited with code 4", () => sb.exec("exit 4", { check: true }))).exitCode, 4);
  assert.equal((await sb.exec("printf 'caf\\303\\251 \\377'")).stdout, "café \ufffd");
  assert.equal((await sb.exec("kill -9 $$")).exit_code, 137);
  await raises(SandboxTimeout, "timed out", () => sb.exec("sleep 60", { timeoutSeconds: 1 }));
  const long = await sb.exec("head -c 3000000 /dev/zero | tr '\\0' x");
  assert.deepEqual([long.stdout.length, long.truncated], [1 << 20, true]);
  assert.equal((await sb.runCode("print(6 * 7)", "python")).stdout, "42\n");
  assert.equal((await sb.runCode("echo $((6*7))")).stdout, "42\n");
  // The client gives up first; the command goes on.
  const hasty = await Sandbox.get(sb.id, { timeoutMs: 1000 });
  await raises((await import("@pandastack/sdk")).NetworkError, "aborted", () => hasty.exec("sleep 2; echo done > /tmp/went-on"));
  assert.equal((await sb.exec("while ! [ -e /tmp/went-on ]; do sleep 0.1; done; cat /tmp/went-on")).stdout, "done\n");
}

async function streams(sb) {
  let out = "", err = "", chunks = 0;
  const code = await sb.execStream("echo one; echo bad >&2; sleep 0.3; echo two; exit 5", {
    onStdout: (c) => { out += c; chunks++; }, onStderr: (c) => { err += c; },
  });
  assert.deepEqual([code, out, err, chunks > 1], [5, "one\ntwo\n", "bad\n", true]);
  out = "";
  const script = String.raw`printf 'caf\303'; sleep 0.3; printf '\251|\302\205|\342\200\250|\r\n\n|\033|\377\n'`;
  assert.equal(await sb.execStream(script, { onStdout: (c) => { out += c; } }), 0);
  assert.equal(out, "café|\x85|\u2028|\r\n\n|\x1b|\ufffd\n");
  out = "";
  assert.equal(await sb.execStream("seq 200000", { onStdout: (c) => { out += c; } }), 0);
  assert.equal(out.length, 1288895);
  assert.equal(await sb.execStream("kill -9 $$"), 137);
  await raises(SandboxTimeout, "timeout", () => sb.execStream("echo a; sleep 60", { timeoutSeconds: 1 }));
  await raises(NotFoundError, "no such sandbox", async () => (await Sandbox.fromInfo({ ...sb.info, id: "none" }, new Client())).execStream("true"));
}

async function files(sb) {
  const fs = sb.filesystem, name = "/workspace/deep/er/café + &?#%.txt";
  assert.deepEqual(await fs.write(name, "héllo\n"), { path: name, bytes: 7 });
  assert.equal(await fs.read(name), "héllo\n");
  const everything = new Uint8Array(256 * 5000).map((_, i) => i % 256);
  assert.equal((await fs.write("/workspace/bin", everything)).bytes, everything.length);
  assert.equal((await sb.exec("sha256sum < /workspace/bin | cut -c1-16")).stdout, await digest(everything));
  const tmp = await mkdtemp(join(tmpdir(), "panda-"));
  try {
    await writeFile(join(tmp, "up"), "text");
    assert.equal((await fs.upload(join(tmp, "up"), "/workspace/text")).bytes, 4);
    await fs.download("/workspace/text", join(tmp, "sub", "down"));
    assert.equal(await readFile(join(tmp, "sub", "down"), "utf8"), "text");
  } finally {
    await rm(tmp, { recursive: true });
  }
  assert.equal((await fs.write("/workspace/empty", "")).bytes, 0);
  assert.deepEqual((await fs.list("/workspace")).map((e) => [e.name, e.is_dir]), [["bin", false], ["deep", true], ["empty", false], ["text", false]]);
  const stat = await fs.stat("/workspace/text");
  assert.deepEqual([stat.name, stat.path, stat.is_dir, stat.size, stat.mode], ["text", "/workspace/text", false, 4, "0644"]);
  assert.deepEqual([await fs.exists("/workspace/bin"), await fs.exists("/workspace/none")], [true, false]);
  const walked = [];
  for await (const step of fs.walk("/workspace")) walked.push([step.dir, step.dirs.length, step.files.length]);
  assert.deepEqual(walked, [["/workspace", 1, 3], ["/workspace/deep", 1, 0], ["/workspace/deep/er", 0, 1]]);
  await raises(NotFoundError, "no such file", () => fs.read("/workspace/none"));
  await raises(BadRequestError, "absolute", () => fs.write("relative", "x"));
}

async function digest(data) {
  const { createHash } = await import("node:crypto");
  return createHash("sha256").update(data).digest("hex").slice(0, 16) + "\n";
}

async function lifecycle(sb) {
  const life = await sb.lifecycle();
  assert.deepEqual([life.ttl_seconds, life.persistent], [120, false]);
  assert.equal((await sb.setTtl(600)).ttl_seconds, 600);
  assert.deepEqual(await pick(sb.setPersistent(true)), [0, true]);
  await raises(BadRequestError, "persistent", () => sb.setTtl(60));
  assert.equal((await sb.setPersistent(false)).persistent, false);
}

const pick = async (life) => [(await life).ttl_seconds, (await life).persistent];

async function missing(client, sb) {
  const collect = async (lines) => { for await (const line of lines) assert.fail(line); };
  const calls = {
    "put to sleep": [() => sb.pause(), () => sb.resume(), () => sb.hibernate(), () => sb.wake()],
    forks: [() => sb.snapshot(), () => sb.fork(), () => sb.forkTree({ count: 2 }), () => sb.promote(), () => client.snapshots.list()],
    "code contexts": [() => sb.createCodeContext()],
    ports: [() => sb.previewUrls()],
    logs: [() => collect(sb.logs()), () => collect(sb.logs({ follow: true }))],
    volumes: [() => client.volumes.list()],
    functions: [() => client.functions.list()],
    databases: [() => client.databases.list()],
    apps: [() => client.apps.list()],
    keys: [() => client.tokens.list()],
  };
  for (const [words, list] of Object.entries(calls)) for (const call of list) await raises(ServerError, words, call);
}

const client = new Client();
await account(client);
await templates(client);
const sb = await create(client);
try {
  await execs(sb);
  await streams(sb);
  await files(sb);
  await lifecycle(sb);
  await missing(client, sb);
} finally {
  await sb.kill();
}
await raises(NotFoundError, "no such sandbox", () => sb.exec("true"));
console.log("javascript: every call is as documented");
