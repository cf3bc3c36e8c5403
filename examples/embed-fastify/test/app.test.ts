import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"
import { expect, test } from "vitest"
import { makeApp } from "../src/app.ts"

const request = { repos: [{ fullName: "acme/shop" }], prompt: "Fix the flaky checkout test." }
const newJournal = () => path.join(mkdtempSync(path.join(tmpdir(), "slipway-journal-")), "journal")
const create = (app: ReturnType<typeof makeApp>, payload: object, headers: Record<string, string> = {}) =>
  app.inject({ method: "POST", url: "/sandboxes", payload, headers })

test("a restart forgets neither a sandbox, nor its log, nor a command, nor a key", async () => {
  const journal = newJournal()
  const before = makeApp(journal)
  const created = await create(before, request, { "idempotency-key": "first" })
  expect(created.statusCode).toBe(201)
  const { id } = created.json<{ id: string }>()
  const ended = await before.inject({ method: "DELETE", url: `/sandboxes/${id}` })
  expect(ended.json()).toMatchObject({ outcome: "applied" })
  const sandbox = (await before.inject(`/sandboxes/${id}`)).json<{ status: string }>()
  expect(sandbox.status).toBe("terminating")
  const events = (await before.inject(`/sandboxes/${id}/events`)).json<Array<unknown>>()
  expect(events).toHaveLength(2)
  await before.close()

  const after = makeApp(journal)
  expect((await after.inject(`/sandboxes/${id}`)).json()).toEqual(sandbox)
  expect((await after.inject(`/sandboxes/${id}/events`)).json()).toEqual(events)
  expect((await after.inject({ method: "DELETE", url: `/sandboxes/${id}` })).json()).toMatchObject({ outcome: "duplicate" })
  const replayed = await create(after, request, { "idempotency-key": "first" })
  expect([replayed.statusCode, replayed.json<{ id: string }>().id]).toEqual([200, id])
  await after.close()
})

test("what the domain refuses is a 4xx", async () => {
  const app = makeApp(newJournal())
  expect((await create(app, { prompt: "No repository." })).statusCode).toBe(400)
  expect((await app.inject("/sandboxes/c_222222222222")).statusCode).toBe(404)
  await create(app, request, { "idempotency-key": "one" })
  expect((await create(app, { ...request, prompt: "Another." }, { "idempotency-key": "one" })).statusCode).toBe(409)
  await app.close()
})
