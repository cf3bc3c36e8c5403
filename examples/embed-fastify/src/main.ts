import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import { open } from "@slipway/domain/promise"
import { start } from "@slipway/worker/promise"
import { makeApp } from "./app.ts"
import * as JournalStore from "./JournalStore.ts"

// A journal that cannot be used stops the start, not the first request.
const slipway = await open({ stores: JournalStore.stores(process.env["JOURNAL"] ?? "sandboxes.journal") })
const worker = await start({
  stores: slipway.stores,
  // `LocalMachine` of @slipway/git has boxes and real repositories.
  machine: MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } }),
  slots: 4,
  agent: async function*(prompt) {
    yield `You asked: ${prompt}`
  }
})
const app = makeApp(slipway)
const address = await app.listen({ port: Number(process.env["PORT"] ?? 4100) })
process.stdout.write(`listening on ${address}\n`)
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => void worker.close().then(() => app.close()))
