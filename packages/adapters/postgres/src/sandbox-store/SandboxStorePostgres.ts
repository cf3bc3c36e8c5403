/** `SandboxStore` on Postgres. One row is a sandbox; its lock orders everything that happens to it. */
import { AuditLog } from "@slipway/domain/access/ports/AuditLog"
import { Ids } from "@slipway/domain/ids/Ids"
import { MaxActiveSandboxes } from "@slipway/domain/sandbox/ports/ActiveSandboxes"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import { Hints } from "@slipway/domain/store/Hints"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AuditLogPostgres from "../audit-log/AuditLogPostgres.ts"
import { makeOpened } from "../partner-store/tell.ts"
import { Reads } from "../sql/Clients.ts"
import { guard } from "../sql/SqlFailure.ts"
import { change } from "./change.ts"
import { command } from "./command.ts"
import { makeCreate, replay } from "./create.ts"
import * as Read from "./read.ts"
import { remove } from "./remove.ts"
import { RowCache } from "./rows/RowCache.ts"
import { approvalRows } from "./statements/approvals.ts"
import { boundTo } from "./statements/idempotencyKeys.ts"
import { messageRows, ofCheckpoints, selectEntries } from "./statements/logs.ts"
import { questionRows } from "./statements/questions.ts"

export const layer = Layer.effect(
  SandboxStore,
  Effect.gen(function*() {
    const sql = yield* SqlClient.SqlClient
    const reads = (yield* Reads) ?? sql
    const store = {
      sql,
      reads,
      audit: yield* AuditLog,
      hints: yield* Hints,
      ids: yield* Ids,
      limits: yield* Policy,
      maxActive: yield* MaxActiveSandboxes,
      known: new RowCache(),
      tellOpened: yield* makeOpened,
      boundTo: boundTo(sql),
      approvalRows: approvalRows(sql),
      questionRows: questionRows(sql)
    }
    const messages = messageRows(reads)
    const checkpoints = ofCheckpoints(reads)

    return SandboxStore.of({
      create: makeCreate(store),
      replay: (grantId, keyed, forkOf) => guard(replay(store, grantId, keyed, forkOf)),
      find: Read.makeFind(store),
      list: (grantId, query) => Read.list(store, grantId, query),
      summaries: (grantId, query) => Read.summaries(store, grantId, query),
      log: (id, after, limit) => guard(selectEntries(reads, id, after, limit)),
      checkpointLog: (id, after, limit) => guard(selectEntries(reads, id, after, limit, checkpoints)),
      messages: (id, after, limit) => guard(messages([id, after, limit])),
      command: (key, asked, now, keyed, trace = null) => command(store, key, asked, now, keyed, trace),
      change: (id, by, decide, now) => change(store, id, by, decide, now),
      delete: (key, now) => remove(store, key, now),
      traces: (id, turnId) => Read.traces(store, id, turnId),
      publishers: (repo, branch) => Read.publishers(store, repo, branch),
      approvals: (id, approvalIds) => guard(Read.approvalsOf(store, id, approvalIds)),
      questions: (id, questionIds) => guard(Read.questionsOf(store, id, questionIds)),
      purged: (id) => Read.purged(store, id)
    })
  })
).pipe(Layer.provide(AuditLogPostgres.layer))
