import { assert, it } from "@effect/vitest"
import type { Agent } from "@slipway/worker/promise"
import * as TestSlipway from "@slipway/worker/testing/TestSlipway"

const request = { repos: [{ fullName: "acme/shop" }], prompt: "[[say Hello]]" }
const asking = { ...request, toolApprovalMode: "prompt" }
const rejection = (asked: Promise<unknown>): Promise<Error> => asked.then(() => assert.fail("not rejected"), (error: Error) => error)
const logOf = async ({ by, events, terminate }: TestSlipway.TestSlipway, id: string) => {
  await terminate(by, id)
  const found = []
  for await (const event of events(by, id)) found.push(event)
  return found
}

it("runs turns by a real worker, and gives their events in order", async () => {
  await using slipway = await TestSlipway.start()
  const { sandbox: { id } } = await slipway.create(slipway.by, request)
  await slipway.until.idle()
  assert.deepInclude((await slipway.get(slipway.by, id)).turn, { n: 1, state: "succeeded" })
  assert.strictEqual((await slipway.until.event(id, "turn.completed")).data.state, "succeeded")
  await slipway.sendMessage(slipway.by, id, "[[say And again]]")
  assert.strictEqual((await slipway.until.event(id, "message.updated")).data.text, "And again")
  const { id: last } = await slipway.until.event(id, ({ type }) => type === "turn.completed")
  assert.strictEqual((await slipway.get(slipway.by, id)).turn?.n, 2)
  assert.strictEqual((await logOf(slipway, id)).findLast(({ type }) => type === "turn.completed")?.id, last)
})

it("passes minutes in no time, with what becomes due in them", async () => {
  await using slipway = await TestSlipway.start({ now: new Date("2027-03-01T00:00:00Z"), limits: { idle: "10 minutes" } })
  const { sandbox: { id } } = await slipway.create(slipway.by, request)
  await slipway.advance("9 minutes")
  assert.strictEqual((await slipway.get(slipway.by, id)).status, "running")
  await slipway.advance("20 minutes")
  assert.deepInclude(await slipway.get(slipway.by, id), { status: "succeeded", reason: "idle_timeout" })
  assert.strictEqual(slipway.now().toISOString(), "2027-03-01T00:29:00.000Z")
})

it("does not wait for the decision of a person, but says which one is missing", async () => {
  await using slipway = await TestSlipway.start()
  const { sandbox: { id } } = await slipway.create(slipway.by, { ...asking, prompt: "[[write path=a.txt content=Text]]" })
  const { data: { approval_id } } = await slipway.until.event(id, "approval.requested")
  assert.include((await rejection(slipway.until.idle())).message, `approve or deny ${approval_id}`)
  await slipway.approve(slipway.by, id, approval_id)
  await slipway.until.idle(id)
  assert.strictEqual((await slipway.get(slipway.by, id)).turn?.state, "succeeded")
})

it("gives up after ten minutes of the virtual clock, and says what it waited for", async () => {
  await using slipway = await TestSlipway.start()
  const { sandbox: { id } } = await slipway.create(slipway.by, { ...request, prompt: "[[hang]]" })
  assert.strictEqual((await rejection(slipway.until.idle())).message, `After 600 virtual seconds: ${id} is running, its turn running.`)
  assert.include((await rejection(slipway.until.event(id, "turn.completed"))).message, "no event turn.completed")
})

it("gives the same events for the same calls, ids included", async () => {
  const run = async () => {
    await using slipway = await TestSlipway.start()
    const { sandbox: { id } } = await slipway.create(slipway.by, request)
    await slipway.until.idle()
    return { key: slipway.key, log: await logOf(slipway, id) }
  }
  const first = await run()
  assert.isAbove(first.log.length, 5)
  assert.deepStrictEqual(await run(), first)
})

it("delivers webhooks in the order of the feed", async () => {
  await using slipway = await TestSlipway.start()
  const { by: { grantId, organizationId, userId }, partners, webhooks } = slipway
  const { endpoint } = await webhooks.register(grantId, { url: "https://partner.example/hook" })
  const claimId = "00000000-0000-4000-8000-000000000001"
  await partners.createClaim({ claimId, grantId, leadId: "l", variant: "v", creditAmount: 5 })
  await partners.claim(claimId, { recipientId: userId, organizationId })
  await slipway.create(slipway.by, request)
  await slipway.until.idle()
  await slipway.advance("1 second")
  const types = slipway.sent.map(({ body }) => JSON.parse(body).type)
  assert.deepStrictEqual(types, ["credit_claim.created", "credit_claim.claimed", "task.started"])
  assert.lengthOf((await webhooks.deliveries(grantId, endpoint.id, { before: null, limit: 10 })).deliveries, 3)
})

it("an agent of one function says texts, shows events, and asks for approvals", async () => {
  const agent: Agent = async function*(prompt, { approve, id, repositories }) {
    yield "I was told: "
    yield prompt
    const call = { callId: `${id} call`, tool: `Look at ${repositories[0]?.name}` }
    yield { _tag: "ToolUpdated", ...call, status: "pending" }
    const allowed = await approve({ id: call.callId, tool: call.tool })
    yield { _tag: "ToolUpdated", ...call, status: allowed ? "completed" : "error" }
    yield allowed ? "Done." : "Left."
  }
  await using slipway = await TestSlipway.start({ agent })
  const { sandbox: { id } } = await slipway.create(slipway.by, { ...asking, prompt: "Look." })
  const { data: { approval_id, tool } } = await slipway.until.event(id, "approval.requested")
  assert.strictEqual(tool, "Look at acme/shop")
  await slipway.deny(slipway.by, id, approval_id)
  await slipway.until.idle()
  const texts = (await logOf(slipway, id)).flatMap(({ data, type }) => type === "message.updated" ? [data.text] : [])
  assert.deepStrictEqual(texts.filter((text, n) => !texts[n + 1]?.startsWith(text)), ["I was told: Look.", "Left."])
})

it("time stands still while an agent does something real", async () => {
  const agent: Agent = async function*() {
    for (let turns = 0; turns < 200; turns++) await new Promise((next) => setImmediate(next))
    yield "Done."
  }
  await using slipway = await TestSlipway.start({ agent })
  const before = slipway.now()
  await slipway.create(slipway.by, request)
  await slipway.until.idle()
  assert.deepStrictEqual(slipway.now(), before)
})

it("an interruption ends the turn of an agent that ignores its signal, and a rejection fails the turn", async () => {
  const aborted: Array<boolean> = []
  const agent: Agent = async function*(prompt, { signal }) {
    signal.addEventListener("abort", () => aborted.push(signal.aborted))
    if (prompt === "Fail.") throw new Error("The model is gone.")
    yield "I begin."
    await new Promise(() => {})
  }
  await using slipway = await TestSlipway.start({ agent })
  const { by } = slipway
  const { sandbox: { id } } = await slipway.create(by, { ...request, prompt: "Hang." })
  await slipway.until.event(id, "message.updated")
  await slipway.interrupt(by, id)
  await slipway.advance("2 seconds")
  assert.strictEqual((await slipway.get(by, id)).turn?.state, "interrupted")
  assert.deepStrictEqual(aborted, [true])
  await slipway.sendMessage(by, id, "Fail.")
  await slipway.until.idle()
  assert.deepInclude((await slipway.get(by, id)).turn, { n: 2, state: "failed" })
  assert.include(JSON.stringify(await logOf(slipway, id)), "The model is gone.")
})

it("closes while a turn hangs", async () => {
  const slipway = await TestSlipway.start()
  const { sandbox: { id } } = await slipway.create(slipway.by, { ...request, prompt: "[[hang]]" })
  await slipway.until.event(id, "turn.started")
  const before = slipway.now().getTime()
  await slipway.close()
  // The turn had its time to end.
  assert.isAtLeast(slipway.now().getTime() - before, 8000)
})
