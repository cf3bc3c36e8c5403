import { assert, it } from "@effect/vitest"
import * as MemoryMachine from "@slipway/domain/memory/MemoryMachine"
import * as AgentRuntimeMemory from "@slipway/domain/memory/sandbox/AgentRuntimeMemory"
import * as Stores from "@slipway/domain/memory/Stores"
import { open } from "@slipway/domain/promise"
import { start } from "@slipway/worker/promise"

const by = { grantId: "g", organizationId: "o", userId: "u" }
const machine = MemoryMachine.layer({ repositories: { "acme/shop": { "README.md": "# Shop\n" } } })

it("a worker runs the sandboxes of an open Slipway, with an agent of one function or a layer", async () => {
  const echo = async function*(prompt: string) {
    yield `You said: ${prompt}`
  }
  for (const agent of [echo, AgentRuntimeMemory.layer]) {
    const slipway = await open({ stores: Stores.layer() })
    const worker = await start({ stores: slipway.stores, machine, agent, slots: 2 })
    const { sandbox: { id } } = await slipway.create(by, { repos: [{ fullName: "acme/shop" }], prompt: "[[say Hello]]" })
    const said = []
    for await (const { data, type } of slipway.events(by, id)) {
      if (type === "message.updated") said.push(data.text)
      if (type === "turn.completed") await slipway.terminate(by, id)
    }
    assert.deepStrictEqual(said, [agent === echo ? "You said: [[say Hello]]" : "Hello"])
    await worker.close()
    await slipway.close()
  }
})

it("a worker that ends gives its sandboxes to the next one", async () => {
  const slipway = await open({ stores: Stores.layer() })
  const options = { stores: slipway.stores, machine, slots: 1, agent: AgentRuntimeMemory.layer }
  const first = await start(options)
  const { sandbox: { id } } = await slipway.create(by, { repos: [{ fullName: "acme/shop" }], prompt: "[[say One]]" })
  const log = slipway.events(by, id)[Symbol.asyncIterator]()
  const until = async (type: string) => {
    for (let step = await log.next(); step.value?.type !== type; step = await log.next()) assert.isFalse(step.done)
  }
  await until("sandbox.checkpoint")
  await first.close()
  const second = await start(options)
  await slipway.sendMessage(by, id, "[[say Two]]")
  await until("turn.completed")
  await second.close()
  await slipway.close()
})
