/** Express routes over the use cases as promises, on one SQLite file, with a worker in the same process. */
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as MemoryStores from "@slipway/domain/memory/Stores"
import { open } from "@slipway/domain/promise"
import { start } from "@slipway/worker/promise"
import { Layer } from "effect"
import express from "express"
import { pipeline, Readable } from "node:stream"
import * as Stores from "./Stores.ts"

const stores = Stores.layer(process.env["DATABASE"] ?? "slipway.db").pipe(Layer.provideMerge(MemoryStores.layer()))
const slipway = await open({ stores })
const machine = MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } })
const agent = async function*(prompt: string) {
  yield `You asked: ${prompt}`
}
const worker = await start({ stores: slipway.stores, machine, agent, slots: 4 })
const by = { grantId: "acme", organizationId: "acme-inc", userId: "ada" } // an application has its own users

const app = express().use(express.json())
app.post("/sandboxes", async ({ body }, response) => void response.status(201).json((await slipway.create(by, body)).sandbox))
app.post("/sandboxes/:id/messages", async ({ body, params }, response) => {
  response.json(await slipway.sendMessage(by, params.id, body.prompt, { whenBusy: "queue" }))
})
app.get("/sandboxes/:id/events", async ({ params }, response) => {
  await slipway.get(by, params.id)
  const lines = Readable.from(slipway.events(by, params.id)).map((event) => `${JSON.stringify(event)}\n`)
  pipeline(lines, response, () => {}) // ends the events when the reader leaves
})
const statuses: Readonly<Record<string, number>> = { InvalidRequest: 400, SandboxNotFound: 404, SandboxNotRunning: 409 }
const refuse: express.ErrorRequestHandler = ({ _tag = "internal_error" }, _request, response, _next) =>
  void response.status(statuses[_tag] ?? 500).json({ error: _tag })
const server = app.use(refuse).listen(Number(process.env["PORT"] ?? 4300), "127.0.0.1")
server.once("listening", () => process.stdout.write(`${JSON.stringify(server.address())}\n`))
process.once("SIGTERM", () => void worker.close().then(slipway.close).then(() => process.exit()))
