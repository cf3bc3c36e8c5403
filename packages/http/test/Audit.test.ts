/** The audit log as JSON lines, over the internal API. */
import { assert, layer } from "@effect/vitest"
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import { DateTime, Effect } from "effect"
import { ask, layer as http, mintKey } from "../testing/Harness.ts"

const PATH = "/api/internal/v1/audit"

interface Line {
  readonly cursor: string
  readonly at: string
  readonly action: string
  readonly actor: { readonly _tag: string }
  readonly origin: null
  readonly subjects: Readonly<Record<string, string>>
}

const at = DateTime.makeUnsafe("2026-11-21T02:41:00.123Z")

layer(http(), { excludeTestServices: true })("the audit log", (it) => {
  it.effect("is exported whole, in order, a line an entry, from a time and after a cursor", () =>
    Effect.gen(function*() {
      const log = yield* AuditLog
      const subject = yield* (yield* Ids).uuid7
      const names = Array.from({ length: 2500 }, (_, i) => String(i))
      yield* log.append(
        names.map((name, i) => ({ action: "key.minted", at: DateTime.add(at, { seconds: i }), subjects: { subject, name } }))
      )
      // A newer entry, which the export does not reach yet.
      const { key } = yield* mintKey({ scopes: ["audit:read"] })
      const exported = Effect.fnUntraced(function*(query: Readonly<Record<string, string>>) {
        const reply = yield* ask(`${PATH}?${new URLSearchParams(query)}`, { key })
        assert.strictEqual(reply.status, 200, reply.text)
        assert.strictEqual(reply.headers["content-type"], "application/x-ndjson")
        const lines: ReadonlyArray<Line> = reply.text.split("\n").slice(0, -1).map((line) => JSON.parse(line))
        return lines.filter(({ subjects }) => subjects["subject"] === subject)
      })
      const all = yield* exported({})
      assert.deepStrictEqual(all.map(({ subjects }) => subjects["name"]), names)
      assert.deepInclude(all[0], { at: "2026-11-21T02:41:00.123Z", action: "key.minted", actor: { _tag: "System" }, origin: null })
      assert.deepStrictEqual(yield* exported({ after: all[2000]?.cursor ?? "" }), all.slice(2001))
      assert.deepStrictEqual(yield* exported({ since: all[2400]?.at ?? "" }), all.slice(2400))
      assert.deepStrictEqual(yield* exported({ since: all[2400]?.at ?? "", after: all[2450]?.cursor ?? "" }), all.slice(2451))
    }))

  it.effect("leaves entries of the last seconds for later, since others may still appear before them", () =>
    Effect.gen(function*() {
      const { key, record } = yield* mintKey({ scopes: ["audit:read"] })
      assert.notInclude((yield* ask(PATH, { key })).text, record.id)
    }))

  it.effect("is asked for with a time and a cursor that can be read, and the scope", () =>
    Effect.gen(function*() {
      const { key } = yield* mintKey({ scopes: ["audit:read"] })
      for (const query of ["since=yesterday", "after=x", "after=-1"]) {
        assert.strictEqual((yield* ask(`${PATH}?${query}`, { key })).status, 400, query)
      }
      assert.strictEqual((yield* ask(PATH, { key: (yield* mintKey({ scopes: ["sandboxes"] })).key })).status, 403)
    }))
})
