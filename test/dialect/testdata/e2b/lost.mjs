// Follows a command in a sandbox that dies under it, and tells what E2B's JavaScript SDK says then.
import { Sandbox } from 'e2b'

const sbx = await Sandbox.create('minimal', { metadata: { run: process.env.RUN }, timeoutMs: 300_000 })
const cut = await sbx.commands.run('touch /tmp/begun; sleep 1000', { timeoutMs: 0 }).catch((e) => e)
console.log(cut.name)
console.log(await sbx.isRunning())
console.log(await sbx.getInfo().catch((e) => e.name))
console.log(await sbx.kill())
