// What a program does inside a sandbox with the official JavaScript SDK. It fails loudly, and prints "ok" at its end.
import assert from 'node:assert/strict'
import { createRequire } from 'node:module'
const require = createRequire(process.env.CLIENT_ROOT + '/')
const { Sandbox, CommandExitError, FileNotFoundError, InvalidArgumentError, AuthenticationError, TimeoutError } = require('e2b')

const sandbox = await Sandbox.create({ timeoutMs: 60_000 })
const { commands, files, pty } = sandbox
assert.equal(await sandbox.isRunning(), true)

// Commands.
const hello = await commands.run('echo out; echo err >&2; echo $A $E2B_SANDBOX', { envs: { A: 'é' }, cwd: '/' })
assert.deepEqual([hello.exitCode, hello.stdout, hello.stderr], [0, 'out\né true\n', 'err\n'])
await assert.rejects(commands.run('exit 3'), (e) => e instanceof CommandExitError && e.exitCode === 3)
await assert.rejects(commands.run('kill -9 $$'), (e) => e instanceof CommandExitError && e.exitCode === -1 && e.error === 'signal: killed')
await assert.rejects(commands.run('sleep 30', { timeoutMs: 300 }), TimeoutError)
await assert.rejects(commands.run('true', { cwd: '/no/such/dir' }), InvalidArgumentError)
await assert.rejects(commands.run('true', { user: 'no-such-user' }), AuthenticationError)
assert.equal((await commands.run('id -un', { user: process.env.CLIENT_USER })).stdout, process.env.CLIENT_USER + '\n')
let streamed = ''
await commands.run('for i in 1 2 3; do echo $i; sleep 0.05; done', { onStdout: (s) => { streamed += s } })
assert.equal(streamed, '1\n2\n3\n')
assert.equal((await commands.run('head -c 3000000 /dev/zero | tr "\\0" x')).stdout.length, 3000000)

const cat = await commands.run('cat; exit 4', { background: true, stdin: true })
await commands.sendStdin(cat.pid, 'typed\n')
await commands.closeStdin(cat.pid)
await assert.rejects(cat.wait(), (e) => e.exitCode === 4 && e.stdout === 'typed\n')

const sleeper = await commands.run('echo $$; sleep 100', { background: true, timeoutMs: 0 })
assert.ok((await commands.list()).some((p) => p.pid === sleeper.pid && p.cmd === '/bin/bash'))
await sleeper.disconnect()
const again = await commands.connect(sleeper.pid)
assert.equal(await commands.kill(sleeper.pid), true)
await assert.rejects(again.wait(), (e) => e instanceof CommandExitError && e.exitCode === -1)
assert.equal(await commands.kill(sleeper.pid), false)
assert.equal((await commands.list()).length, 0)

// A terminal.
let screen = ''
const term = await pty.create({ cols: 60, rows: 20, onData: (b) => { screen += Buffer.from(b) }, timeoutMs: 20_000 })
await pty.sendInput(term.pid, new TextEncoder().encode('stty size; exit 7\n'))
await assert.rejects(term.wait(), (e) => e.exitCode === 7)
assert.match(screen, /20 60/)

// Files.
const one = await files.write('dir/sub/one.txt', 'one')
assert.equal(one.path, process.env.CLIENT_HOME + '/dir/sub/one.txt')
assert.equal(await files.read('dir/sub/one.txt'), 'one')
await files.write('empty', '')
assert.equal(await files.read('empty'), '')
const bytes = new Uint8Array(300_000).map((_, i) => i % 251)
await files.write('bytes', bytes.buffer)
assert.deepEqual(await files.read('bytes', { format: 'bytes' }), bytes)
await files.write('stream', new Blob([bytes]).stream())
let size = 0
for await (const part of await files.read('stream', { format: 'stream' })) size += part.length
assert.equal(size, 300_000)
await files.write('packed', 'zip me', { gzip: true })
assert.equal(await files.read('packed', { gzip: true }), 'zip me')
const many = await files.write([{ path: 'many/a', data: 'a' }, { path: 'many/ü "b"', data: 'b' }, { path: '/tmp/envd-c ' + process.pid, data: 'c' }])
assert.deepEqual(many.map((f) => f.name), ['a', 'ü "b"', 'envd-c ' + process.pid])
assert.equal(await files.read('many/ü "b"'), 'b')
await files.remove('/tmp/envd-c ' + process.pid)
await assert.rejects(files.read('none'), FileNotFoundError)
await assert.rejects(files.read('dir'), InvalidArgumentError)
await assert.rejects(files.write('full', 'x', { metadata: { color: 'red' } }), /metadata/)
assert.match(await files.read('/proc/self/status'), /Pid:/)

assert.equal(await files.makeDir('made/deep'), true)
assert.equal(await files.makeDir('made/deep'), false)
assert.equal(await files.exists('made'), true)
assert.equal(await files.exists('none'), false)
await commands.run('ln -s dir/sub/one.txt link; ln -s nowhere dangling', { cwd: process.env.CLIENT_HOME })
const link = await files.getInfo('link')
assert.deepEqual([link.type, link.symlinkTarget, link.permissions, link.mode], ['file', process.env.CLIENT_HOME + '/dir/sub/one.txt', 'Lrwxrwxrwx', 0o644])
assert.deepEqual((await files.list('dir', { depth: 3 })).map((e) => e.path.replace(process.env.CLIENT_HOME + '/', '')), ['dir/sub', 'dir/sub/one.txt'])
const moved = await files.rename('dir/sub/one.txt', 'other/place')
assert.equal(moved.name, 'place')
await files.remove('dir')
await files.remove('dir')
assert.equal(await files.exists('dir'), false)
const seen = []
const watch = await files.watchDir('made', (e) => { seen.push(`${e.type} ${e.name}`) })
await files.write('made/f', 'x')
while (!seen.includes('create f')) await new Promise((r) => setTimeout(r, 10))
await watch.stop()

// Signed addresses.
const down = await sandbox.downloadUrl('bytes', { useSignatureExpiration: 60 })
assert.equal((await (await fetch(down)).arrayBuffer()).byteLength, 300_000)
assert.equal((await fetch(down.replace('bytes', 'empty'))).status, 401)
const form = new FormData()
form.append('file', new Blob(['sent']), 'sent')
assert.equal((await fetch(await sandbox.uploadUrl('sent'), { method: 'POST', body: form })).status, 200)
assert.equal(await files.read('sent'), 'sent')

// Many at once.
const all = await Promise.all(Array.from({ length: 60 }, (_, i) => commands.run('echo ' + i)))
assert.deepEqual(all.map((r) => r.stdout), Array.from({ length: 60 }, (_, i) => i + '\n'))
console.log('ok')
process.exit(0)
