// What E2B's JavaScript SDK tells of a sandbox that ends, under an open stream and afterwards, and of one whose token is another.
import assert from 'node:assert/strict'
import { Sandbox, SandboxNotFoundError, TimeoutError, AuthenticationError } from 'e2b'

const sbx = await Sandbox.create('base', { timeoutMs: 120_000 })
const waits = sbx.commands.run('sleep 1000').catch((e) => e)
await until(async () => (await sbx.commands.list()).some((p) => p.args.join(' ').includes('sleep 1000')))
const began = Date.now()
assert.equal(await sbx.kill(), true)
const cut = await waits
assert.ok(cut instanceof TimeoutError, String(cut))
assert.ok(Date.now() - began < 15_000, 'the stream outlived its sandbox')
assert.equal(await sbx.isRunning(), false)
assert.equal(await sbx.kill(), false)
await assert.rejects(sbx.commands.run('true'), (e) => e instanceof SandboxNotFoundError || e instanceof TimeoutError)
await assert.rejects(sbx.files.read('/etc/hostname'), TimeoutError)
await assert.rejects(sbx.getInfo(), SandboxNotFoundError)
await assert.rejects(sbx.setTimeout(1000), SandboxNotFoundError)
await assert.rejects(sbx.pause(), SandboxNotFoundError)
await assert.rejects(Sandbox.connect(sbx.sandboxId), SandboxNotFoundError)
const short = await Sandbox.create('base', { timeoutMs: 60_000 })
await short.setTimeout(0)
assert.equal(await short.isRunning(), false)
const wrong = await Sandbox.create('base')
const intruder = new Sandbox({ sandboxId: wrong.sandboxId, envdVersion: '0.6.4', envdAccessToken: 'x'.repeat(64), sandboxDomain: wrong.sandboxDomain })
await assert.rejects(intruder.commands.run('true'), AuthenticationError)
await wrong.kill()
console.log('the end')

// until waits for something to come true.
async function until(f) {
  const deadline = Date.now() + 30_000
  while (!(await f())) {
    if (Date.now() > deadline) throw new Error(`did not come true: ${f}`)
    await new Promise((r) => setTimeout(r, 20))
  }
}
