import { open } from "@slipway/domain/promise"
import * as TestSlipway from "@slipway/worker/testing/TestSlipway"
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { expect, test } from "vitest"
import { makeApp } from "../src/app.ts"
import * as JournalStore from "../src/JournalStore.ts"

const request = { repos: [{ fullName: "acme/shop" }], prompt: "Fix the flaky checkout test." }
const newJournal = () => path.join(mkdtempSync(path.join(tmpdir(), "slipway-journal-")), "journal")
/** Without a worker: its sandboxes stay queued. */
const appOn = async (journal: string) => makeApp(await open({ stores: JournalStore.stores(journal) }))
const create = (app: Awaited<ReturnType<typeof appOn>>, payload: object, headers: Record<string, string> = {}) =>
  app.inject({ method: "POST", url: "/sandboxes", payload, headers })

test("a restart forgets neither a sandbox, nor its log, nor a command, nor a key", async () => {
  const journal = newJournal()
  const before = await appOn(journal)
  const created = await create(before, request, { "idempotency-key": "first" })
  expect(created.statusCode).toBe(201)
  const { id } = created.json<{ id: string }>()
  const ended = await before.inject({ method: "DELETE", url: `/sandboxes/${id}` })
  expect(ended.json()).toMatchObject({ outcome: "applied" })
  const sandbox = (await before.inject(`/sandboxes/${id}`)).json<{ status: string }>()
  expect(sandbox.status).toBe("terminated")
  const events = (await before.inject(`/sandboxes/${id}/events`)).body
  expect(events.match(/^id: .*$/gmu)).toEqual(["id: 1", "id: 2", "id: 3"])
  await before.close()

  const after = await appOn(journal)
  expect((await after.inject(`/sandboxes/${id}`)).json()).toEqual(sandbox)
  expect((await after.inject(`/sandboxes/${id}/events`)).body).toBe(events)
  expect((await after.inject({ method: "DELETE", url: `/sandboxes/${id}` })).json()).toMatchObject({ outcome: "duplicate" })
  const replayed = await create(after, request, { "idempotency-key": "first" })
  expect([replayed.statusCode, replayed.json<{ id: string }>().id]).toEqual([200, id])
  await after.close()
})

test("a line that was torn when the process died is cut off, everything before it is kept, and what comes after is kept too", async () => {
  const journal = newJournal()
  const before = await appOn(journal)
  const { id } = (await create(before, request)).json<{ id: string }>()
  await before.close()
  const whole = readFileSync(journal)
  for (const torn of ["{\"_tag\":\"Created\",\"crea", "\0\0\0\0", whole.subarray(0, whole.length - 1)]) {
    writeFileSync(journal, Buffer.concat([whole, Buffer.from(torn)]))
    const after = await appOn(journal)
    expect((await after.inject(`/sandboxes/${id}`)).statusCode).toBe(200)
    const next = await create(after, request)
    expect(next.statusCode).toBe(201)
    await after.close()
    const again = await appOn(journal)
    expect((await again.inject(`/sandboxes/${next.json<{ id: string }>().id}`)).statusCode).toBe(200)
    await again.close()
  }
})

test("a journal that somebody damaged stops the start and names the line", async () => {
  const journal = newJournal()
  writeFileSync(journal, "nonsense\n")
  await expect(appOn(journal)).rejects.toThrow(/Line 1 of .* cannot be read/)
})

test("a worker answers prompts, and what the domain refuses is a 4xx", async () => {
  const { by, until, ...slipway } = await TestSlipway.start()
  const app = makeApp(slipway, by)
  const { id } = (await create(app, { ...request, prompt: "[[say Fixed.]]" }, { "idempotency-key": "one" })).json<{ id: string }>()
  await until.idle()
  const sent = await app.inject({ method: "POST", url: `/sandboxes/${id}/messages`, payload: { prompt: "[[say Really.]]" } })
  expect(sent.statusCode).toBe(200)
  await until.idle()
  await app.inject({ method: "DELETE", url: `/sandboxes/${id}` })
  const { body } = await app.inject(`/sandboxes/${id}/events`)
  expect(body.match(/"text":"\w+\."/gu)).toEqual([`"text":"Fixed."`, `"text":"Really."`])

  expect((await create(app, { prompt: "No repository." })).statusCode).toBe(400)
  expect((await app.inject("/sandboxes/c_222222222222")).statusCode).toBe(404)
  expect((await create(app, { ...request, prompt: "Another." }, { "idempotency-key": "one" })).statusCode).toBe(409)
  await app.close()
})
