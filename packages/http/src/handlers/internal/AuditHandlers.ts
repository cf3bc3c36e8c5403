/** Writes the audit log as JSON lines. */
import { AuditLine, MAX_AUDIT_LINES } from "@slipway/api/groups/AuditApi"
import { InternalApi } from "@slipway/api/InternalApi"
import { AuditLog, type NumberedEntry } from "@slipway/domain/access/ports/AuditLog"
import { DateTime, Effect, Schema, Stream } from "effect"
import { HttpApiBuilder } from "effect/http-api"

/** Entries of one read. */
const PAGE = 1000

/** Transactions that began earlier have ended: an entry cannot appear below one of this age. */
const SETTLED = { seconds: 10 } as const

const encode = Schema.encodeSync(AuditLine)
const utf8 = new TextEncoder()

const linesOf = (entries: ReadonlyArray<NumberedEntry>): Uint8Array =>
  utf8.encode(
    entries.map(({ entry, number }) => {
      const { action, actor, at, origin, subjects } = entry
      return `${JSON.stringify(encode({ cursor: String(number), at, actor, action, subjects, origin }))}\n`
    }).join("")
  )

export const layer = HttpApiBuilder.group(
  InternalApi,
  "audit",
  Effect.fn(function*(handlers) {
    const log = yield* AuditLog

    return handlers.handleAll({
      exportAudit: Effect.fnUntraced(function*({ query: { after = 0, since = null } }) {
        const until = DateTime.subtract(yield* DateTime.now, SETTLED)
        const read = Effect.fnUntraced(function*(after: number) {
          const entries = yield* log.page({ since, after, limit: PAGE })
          const recent = entries.findIndex(({ entry }) => DateTime.isGreaterThan(entry.at, until))
          return { entries: recent === -1 ? entries : entries.slice(0, recent), isLast: recent !== -1 || entries.length < PAGE }
        })
        // Read before the answer begins, so that its status tells of a store that is away.
        const first = yield* read(after)
        const rest = Stream.unfold(
          { page: first, left: MAX_AUDIT_LINES },
          Effect.fnUntraced(function*({ left, page }) {
            const last = page.entries.at(-1)
            if (page.isLast || last === undefined || left <= PAGE) return undefined
            const next = yield* read(last.number)
            return [next.entries, { page: next, left: left - PAGE }] as const
          })
        )
        return Stream.concat(Stream.succeed(first.entries), rest).pipe(Stream.map(linesOf), Stream.filter(({ length }) => length > 0))
      })
    })
  })
)
