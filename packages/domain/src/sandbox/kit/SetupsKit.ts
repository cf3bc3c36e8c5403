/** `Setups` over the statements of a database, and the published commits that it knows. */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import { Timestamp } from "../../time/Timestamp.ts"
import { StaleLease } from "../ports/Leases.ts"
import { SetupCache, Setups } from "../ports/Setups.ts"
import { guard } from "./Rows.ts"
import type { Statements } from "./Statements.ts"

const Record = Schema.fromJsonString(Schema.Struct({
  state: Schema.Literals(["running", "succeeded", "failed"]),
  startedAt: Timestamp,
  ms: Schema.NullOr(Schema.Number),
  cache: SetupCache,
  exitCode: Schema.NullOr(Schema.Number),
  output: Schema.String,
  told: Schema.NullOr(Schema.String)
}))
const encode = Schema.encodeSync(Record)
const decode = Schema.decodeUnknownSync(Record)

/** `Setups` over these statements. */
export const make = (statements: Statements): Setups["Service"] => {
  const guarded = guard(statements)
  return Setups.of({
    save: ({ fence, sandboxId }, record) =>
      guarded(statements.transaction(Effect.gen(function*() {
        const [lease] = yield* statements.leases([sandboxId])
        if (lease?.fence !== fence) return yield* new StaleLease()
        yield* statements.save("setups", [{ sandboxId, record: encode(record) }])
      }))),
    find: (id) => Effect.map(guarded(statements.setups(id)), ([row]) => row === undefined ? null : decode(row.record)),
    wasPushedUnmerged: (repo, sha) => Effect.map(guarded(statements.unmerged(repo.toLowerCase(), sha)), (rows) => rows.length > 0)
  })
}
