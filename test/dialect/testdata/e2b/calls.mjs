// Every call of E2B's JavaScript SDK that docs/dialects/e2b.md says works, once, with what its caller is told. It finds the server as the
// SDK does, by its environment.
import assert from 'node:assert/strict'
import { Sandbox, Template, CommandExitError, FileNotFoundError, TimeoutError, AuthenticationError, InvalidArgumentError } from 'e2b'

const decoder = new TextDecoder()

async function check(name, f) {
  try {
    await f()
  } catch (err) {
    console.error(`FAIL ${name}:`, err)
    process.exitCode = 1
    return
  }
  console.log(`ok ${name}`)
}

// left is how many seconds a sandbox has left.
const left = (info) => (info.endAt - Date.now()) / 1000

const sbx = await Sandbox.create('base', { timeoutMs: 120_000, metadata: { 'a b': 'c&d=e', run: process.env.RUN }, envs: { GREETING: 'hello' } })

await check('info', async () => {
  const info = await sbx.getInfo()
  assert.equal(info.sandboxId, sbx.sandboxId)
  assert.equal(info.name, 'base')
  assert.equal(info.state, 'running')
  assert.deepEqual(info.metadata, { 'a b': 'c&d=e', run: process.env.RUN })
  assert.ok(left(info) > 100 && left(info) <= 121, `${left(info)} s left`)
  assert.ok(info.memoryMB > 0 && info.cpuCount > 0)
  assert.deepEqual(info.lifecycle, { onTimeout: 'kill', autoResume: false })
  assert.equal(info.allowInternetAccess, false)
  assert.ok(await sbx.isRunning())
})

await check('timeout', async () => {
  await sbx.setTimeout(300_000)
  assert.ok(left(await sbx.getInfo()) > 290)
  await Sandbox.setTimeout(sbx.sandboxId, 200_000)
  const now = left(await sbx.getInfo())
  assert.ok(now > 190 && now < 201, `${now} s left`)
})

await check('connect', async () => {
  const again = await Sandbox.connect(sbx.sandboxId, { timeoutMs: 1_000 })
  assert.ok(left(await again.getInfo()) > 180, 'connect has shortened a life')
  assert.equal((await again.commands.run('echo $GREETING')).stdout, 'hello\n')
  await sbx.connect({ timeoutMs: 400_000 })
  assert.ok(left(await sbx.getInfo()) > 390, 'connect has not lengthened a life')
})

await check('list', async () => {
  const others = []
  for (const i of [1, 2, 3]) others.push(await Sandbox.create('base', { metadata: { run: process.env.RUN, i: String(i) } }))
  const all = async (opts) => {
    const pages = Sandbox.list(opts)
    const ids = []
    while (pages.hasNext) ids.push((await pages.nextItems()).map((s) => s.sandboxId))
    return ids
  }
  const query = { metadata: { run: process.env.RUN } }
  const newest = await all({ query, limit: 3 })
  assert.deepEqual(newest.map((p) => p.length), [3, 1])
  assert.equal(newest[1][0], sbx.sandboxId)
  const oldest = await all({ query, limit: 2, order: 'asc' })
  assert.deepEqual(oldest.flat(), newest.flat().reverse())
  assert.deepEqual(await all({ query: { metadata: { 'a b': 'c&d=e', run: process.env.RUN }, state: ['running'] } }), [[sbx.sandboxId]])
  assert.deepEqual(await all({ query: { ...query, state: ['paused'] } }), [[]])
  assert.equal((await all({ query: { ...query, template: 'base', startedAfter: new Date(Date.now() - 600_000) } })).flat().length, 4)
  assert.deepEqual(await all({ query: { ...query, template: 'nothing' } }), [[]])
  assert.deepEqual(await all({ query: { ...query, startedAfter: new Date(Date.now() + 600_000) } }), [[]])
  for (const o of others) assert.equal(await o.kill(), true)
})

await check('metrics', async () => {
  const [m] = await sbx.getMetrics()
  assert.ok(m.memUsed > 0 && m.memTotal >= m.memUsed && m.cpuUsedPct >= 0 && m.cpuUsedPct <= 100 && m.cpuCount > 0, JSON.stringify(m))
  assert.deepEqual(await sbx.getMetrics({ start: new Date(1000), end: new Date(2000) }), [])
})

await check('commands: foreground', async () => {
  let seen = ''
  const r = await sbx.commands.run('echo out; echo err >&2; printf "%s" "$A"', { envs: { A: 'é' }, onStdout: (s) => { seen += s } })
  assert.deepEqual([r.exitCode, r.stdout, r.stderr], [0, 'out\né', 'err\n'])
  assert.equal(seen, r.stdout)
  assert.equal((await sbx.commands.run('pwd', { cwd: '/tmp' })).stdout, '/tmp\n')
  assert.equal((await sbx.commands.run('id -un', { user: 'root' })).stdout, 'root\n')
  assert.match((await sbx.commands.run('echo $E2B_SANDBOX_ID')).stdout, new RegExp(sbx.sandboxId))
  const failed = await sbx.commands.run('echo no; exit 7').catch((e) => e)
  assert.ok(failed instanceof CommandExitError)
  assert.deepEqual([failed.exitCode, failed.stdout], [7, 'no\n'])
  const killed = await sbx.commands.run('kill -9 $$').catch((e) => e)
  assert.ok(killed instanceof CommandExitError && killed.exitCode !== 0, String(killed))
  await assert.rejects(sbx.commands.run('true', { user: 'nobody-here' }), AuthenticationError)
  await assert.rejects(sbx.commands.run('true', { cwd: '/nowhere' }), InvalidArgumentError)
})

await check('commands: timeout', async () => {
  const began = Date.now()
  await assert.rejects(sbx.commands.run('sleep 333 & sleep 333', { timeoutMs: 1_000 }), TimeoutError)
  assert.ok(Date.now() - began < 10_000)
  const { stdout } = await sbx.commands.run('ps -eo args')
  assert.ok(stdout.includes('ps -eo args') && !stdout.includes('sleep 333'), `a process has outlived its deadline:\n${stdout}`)
})

await check('commands: background, list, connect, stdin, kill', async () => {
  const cat = await sbx.commands.run('cat', { background: true, stdin: true })
  assert.ok((await sbx.commands.list()).some((p) => p.pid === cat.pid))
  let heard = ''
  const other = await sbx.commands.connect(cat.pid, { onStdout: (s) => { heard += s } })
  await sbx.commands.sendStdin(cat.pid, 'one\n')
  await sbx.commands.sendStdin(cat.pid, 'two\n')
  await sbx.commands.closeStdin(cat.pid)
  assert.equal((await cat.wait()).stdout, 'one\ntwo\n')
  await other.wait()
  assert.equal(heard, 'one\ntwo\n')

  const sleeper = await sbx.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  await sleeper.disconnect()
  assert.ok((await sbx.commands.list()).some((p) => p.pid === sleeper.pid), 'it ended with its client')
  assert.equal(await sbx.commands.kill(sleeper.pid), true)
  await assert.rejects((await sbx.commands.connect(sleeper.pid)).wait(), CommandExitError)
  assert.equal(await sbx.commands.kill(sleeper.pid), false)
  assert.equal(await sbx.commands.kill(999_999), false)
  const killed = await sbx.commands.run('sleep 1000', { background: true })
  assert.equal(await killed.kill(), true)
  await assert.rejects(killed.wait(), CommandExitError)
})

await check('terminal', async () => {
  let out = ''
  const pty = await sbx.pty.create({ cols: 91, rows: 23, onData: (d) => { out += decoder.decode(d) }, envs: { PS1: '> ' } })
  await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'))
  await until(() => out.includes('23 91'))
  await sbx.pty.resize(pty.pid, { cols: 100, rows: 30 })
  await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('stty size\n'))
  await until(() => out.includes('30 100'))
  await sbx.pty.sendInput(pty.pid, new TextEncoder().encode('exit\n'))
  assert.equal((await pty.wait()).exitCode, 0)
})

await check('files', async () => {
  const info = await sbx.files.write('dir/hello.txt', 'hello é')
  const home = info.path.replace('/dir/hello.txt', '')
  assert.equal(await sbx.files.read('dir/hello.txt'), 'hello é')
  assert.equal(await sbx.files.read(`${home}/dir/hello.txt`), 'hello é')
  const bytes = Uint8Array.from({ length: 100_000 }, (_, i) => i % 256)
  await sbx.files.write('/tmp/bytes', bytes.buffer)
  assert.deepEqual(await sbx.files.read('/tmp/bytes', { format: 'bytes' }), bytes)
  assert.equal((await sbx.files.read('/tmp/bytes', { format: 'blob' })).size, 100_000)
  let streamed = 0
  for await (const part of await sbx.files.read('/tmp/bytes', { format: 'stream' })) streamed += part.length
  assert.equal(streamed, 100_000)
  await sbx.files.write('/tmp/empty', '')
  assert.equal(await sbx.files.read('/tmp/empty'), '')
  await sbx.files.write('/tmp/zipped', 'zip '.repeat(1000), { gzip: true })
  assert.equal((await sbx.files.read('/tmp/zipped', { gzip: true })).length, 4000)
  const many = await sbx.files.writeFiles([{ path: 'many/a', data: '1' }, { path: 'many/deep/b', data: '2' }])
  assert.equal(many.length, 2)
  assert.deepEqual((await sbx.files.list('many')).map((e) => [e.name, e.type]), [['a', 'file'], ['deep', 'dir']])
  assert.deepEqual((await sbx.files.list('many', { depth: 2 })).map((e) => e.path), [`${home}/many/a`, `${home}/many/deep`, `${home}/many/deep/b`])
  assert.equal(await sbx.files.exists('many/a'), true)
  assert.equal(await sbx.files.exists('many/c'), false)
  const stat = await sbx.files.getInfo('many/a')
  assert.deepEqual([stat.name, stat.type, stat.size, stat.permissions], ['a', 'file', 1, '-rw-r--r--'])
  assert.equal((await sbx.files.rename('many/a', 'many/new/c')).path, `${home}/many/new/c`)
  assert.equal(await sbx.files.read('many/new/c'), '1')
  assert.equal(await sbx.files.makeDir('many/d/e'), true)
  assert.equal(await sbx.files.makeDir('many/d/e'), false)
  await sbx.files.remove('many')
  assert.equal(await sbx.files.exists('many'), false)
  await assert.rejects(sbx.files.read('many/a'), FileNotFoundError)
  await assert.rejects(sbx.files.read('/tmp'), InvalidArgumentError)
  assert.match(await sbx.files.read('/proc/self/status'), /Pid:/)
})

await check('signed URLs', async () => {
  const up = await sbx.uploadUrl('/tmp/signed file', { useSignatureExpiration: 60_000 })
  const down = await sbx.downloadUrl('/tmp/signed file')
  const form = new FormData()
  form.append('file', new Blob(['by URL']), 'x')
  const sent = await fetch(up, { method: 'POST', body: form })
  if (!process.env.E2B_DOMAIN) {
    assert.equal(sent.status, 400)
    assert.match((await sent.json()).message, /E2B_DOMAIN/)
    return
  }
  assert.equal(sent.status, 200, await sent.text())
  assert.equal(await (await fetch(down)).text(), 'by URL')
  assert.equal((await fetch(down.replace('signed', 'other'))).status, 401)
  assert.equal((await fetch(await sbx.downloadUrl('/tmp/signed file', { useSignatureExpiration: -60_000 }))).status, 401)
})

await check('watch', async () => {
  await sbx.files.makeDir('watched/sub')
  const seen = []
  const handle = await sbx.files.watchDir('watched', (e) => { seen.push(`${e.type} ${e.name}`) }, { recursive: true, timeoutMs: 60_000 })
  await sbx.files.write('watched/sub/f', '1')
  await sbx.files.rename('watched/sub/f', 'watched/g')
  await sbx.files.remove('watched/g')
  const wanted = ['create sub/f', 'write sub/f', 'rename sub/f', 'create g', 'remove g']
  await until(() => seen.includes('remove g'))
  assert.deepEqual(wanted.filter((e) => seen.includes(e)), wanted, seen.join())
  await handle.stop()
})

await check('what is not there yet', async () => {
  const refused = async (p, words) => {
    const e = await p.then(() => new Error('it worked'), (e) => e)
    assert.ok(e instanceof Error && words.test(e.message), String(e))
  }
  await refused(sbx.pause(), /501: .*pause/)
  await refused(sbx.createSnapshot(), /501: /)
  await refused(sbx.fork(), /501: /)
  await refused(sbx.updateNetwork({ denyOut: ['0.0.0.0/0'] }), /501: /)
  await refused(Sandbox.create('base', { lifecycle: { onTimeout: 'pause' } }), /501: .*pause/)
  await refused(Sandbox.create('base', { network: { allowOut: ['1.1.1.1'] } }), /501: network.allowOut/)
  await refused(Sandbox.create('base', { timeoutMs: 90_000_000 }), /400: Timeout cannot be greater than 24 hours/)
  await refused(Sandbox.create('nothing'), /404: /)
  await refused(sbx.files.write('x', 'y', { metadata: { a: 'b' } }), /metadata/)
  await assert.rejects(Sandbox.list({ apiKey: 'e2b_0000' }).nextItems(), AuthenticationError)
  assert.equal(await Template.exists('base'), true)
  assert.equal(await Template.exists('nothing'), false)
})

assert.equal(await sbx.kill(), true)

// until waits for something to come true.
async function until(f) {
  const deadline = Date.now() + 30_000
  while (!(await f())) {
    if (Date.now() > deadline) throw new Error(`did not come true: ${f}`)
    await new Promise((r) => setTimeout(r, 20))
  }
}
