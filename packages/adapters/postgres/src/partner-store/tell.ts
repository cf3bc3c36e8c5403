/** Adding facts to the feeds of partners. */
import { Ids } from "@slipway/domain/ids/Ids"
import type { Telling } from "@slipway/domain/partner/ports/PartnerStore"
import { openPullRequest, pullRequestId } from "@slipway/domain/partner/rules/Attribution"
import { naturalId, PartnerFact } from "@slipway/domain/partner/schema/PartnerEvent"
import type { Pull } from "@slipway/domain/source/schema/PullRequest"
import { type DateTime, Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import { tasksOf, tellPartners } from "./statements/feed.ts"

const encodeFact = Schema.encodeSync(PartnerFact)

/**
 * Adds to the feeds within the transaction of the caller, which should commit next: readers and writers of the same feeds wait for it.
 * Fails as a statement does.
 */
export const tell = Effect.fnUntraced(
  function*(
    { ids, sql }: { readonly ids: Ids["Service"]; readonly sql: SqlClient.SqlClient },
    facts: ReadonlyArray<Telling>,
    at: DateTime.Utc
  ) {
    if (facts.length === 0) return
    const tellings = yield* Effect.forEach(
      facts,
      ({ fact, grantId }) => Effect.map(ids.uuid7, (id) => ({ grant_id: grantId, id, natural_id: naturalId(fact), ...encodeFact(fact) }))
    )
    yield* tellPartners(sql, tellings, at)
  }
)

/** Tells, as the last part of the caller's transaction, that a pull request is there, if its task started under a touch. */
export const makeOpened = Effect.gen(function*() {
  const sql = yield* SqlClient.SqlClient
  const ids = yield* Ids
  const tasks = tasksOf(sql)
  return Effect.fnUntraced(function*(taskId: string, pull: Pull, at: DateTime.Utc) {
    for (const { projectId, ...touch } of yield* tasks(taskId)) {
      yield* tell({ ids, sql }, openPullRequest({ taskId, projectId, touch }, pullRequestId(ids, pull), at), at)
    }
  })
})
