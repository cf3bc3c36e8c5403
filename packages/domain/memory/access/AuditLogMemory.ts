/** `AuditLog` in memory: for tests and for embedding without a database. State dies with the layer. */
import * as DateTime from "effect/DateTime"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { type AuditEntry, Acting, ActingFrom, AuditLog } from "../../src/access/ports/AuditLog.ts"

/** Process-local, for tests and for embedding without a database. */
export const layer = Layer.sync(AuditLog, () => {
  const log: Array<AuditEntry> = []
  return AuditLog.of({
    append: (events) =>
      Effect.gen(function*() {
        const actor = yield* Acting
        const origin = yield* ActingFrom
        log.push(...events.map((event) => ({ ...event, actor, origin })))
      }),
    list: ({ limit, since }) =>
      Effect.sync(() => log.filter(({ at }) => since === null || DateTime.isGreaterThanOrEqualTo(at, since)).slice(-limit)),
    page: ({ after, limit, since }) =>
      Effect.sync(() =>
        log.map((entry, i) => ({ number: i + 1, entry })).filter(({ entry: { at }, number }) =>
          number > after && (since === null || DateTime.isGreaterThanOrEqualTo(at, since))
        ).slice(0, limit)
      ),
    follow: Effect.sync(() => {
      let told = log.length
      return Effect.sync(() => {
        const entries = log.slice(told)
        told = log.length
        return entries
      })
    })
  })
})
