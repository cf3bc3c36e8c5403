/** The stores of sandboxes on Postgres, with what their contract suites need to set the stage. */
import { Access } from "@slipway/domain/access/usecases/Access"
import { Ids } from "@slipway/domain/ids/Ids"
import type { Checkpoints } from "@slipway/domain/sandbox/ports/Checkpoints"
import { RETENTION_DAYS } from "@slipway/domain/sandbox/rules/Idempotency"
import { Policy } from "@slipway/domain/sandbox/rules/Policy"
import type { Hints } from "@slipway/domain/store/Hints"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as IdsNode from "@slipway/machine/node/IdsNode"
import { StoreFixture } from "@slipway/testing/contracts/sandbox/SandboxStates"
import { Duration, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as AccessStorePostgres from "../src/access-store/AccessStorePostgres.ts"
import * as ArtifactStorePostgres from "../src/artifact-store/ArtifactStorePostgres.ts"
import * as FeedbackWatchesPostgres from "../src/feedback-watches/FeedbackWatchesPostgres.ts"
import * as HintsPostgres from "../src/HintsPostgres.ts"
import * as LeasesPostgres from "../src/leases/LeasesPostgres.ts"
import * as MaintenancePostgres from "../src/maintenance/MaintenancePostgres.ts"
import * as Migrations from "../src/Migrations.ts"
import * as PromptFilesPostgres from "../src/prompt-files/PromptFilesPostgres.ts"
import * as SandboxDashboardPostgres from "../src/sandbox-dashboard/SandboxDashboardPostgres.ts"
import * as SandboxStorePostgres from "../src/sandbox-store/SandboxStorePostgres.ts"
import * as SetupsPostgres from "../src/setups/SetupsPostgres.ts"
import { AnswerMillis } from "../src/sql/SqlFailure.ts"
import { textArray } from "../src/sql/TextArray.ts"
import * as WorkersPostgres from "../src/workers/WorkersPostgres.ts"

const Fixture = Layer.effect(
  StoreFixture,
  Effect.gen(function*() {
    const services = yield* Effect.context<SqlClient.SqlClient | Hints | Ids>()
    const sql = yield* SqlClient.SqlClient
    const access = yield* Access
    const ids = yield* Ids
    return StoreFixture.of({
      grant: Effect.orDie(Effect.flatMap(ids.uuid7, (name) => Effect.map(access.createGrant(name), ({ grant }) => grant.id))),
      ageLease: (id, seconds) =>
        Effect.orDie(
          Effect.asVoid(sql`UPDATE sandboxes SET lease_until = lease_until - make_interval(secs => ${seconds}) WHERE id = ${id}`)
        ),
      ageWork: (ids, seconds) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE sandboxes SET work_since = now() - make_interval(secs => ${seconds})
          WHERE id = ANY(${textArray(ids)}::text[]) AND work IS NOT NULL`)),
      // The database's clock is not ours to set: what it remembers moves into the past instead.
      ageKeys: (grantId, until) =>
        Effect.orDie(Effect.asVoid(sql`
          UPDATE idempotency_keys SET created_at = created_at - make_interval(
            days => ${until === "before" ? RETENTION_DAYS : 0}, mins => ${until === "before" ? -1 : 2})
          WHERE grant_id = ${grantId}`)),
      under: (limits, use) =>
        Effect.provide(
          use,
          Layer.fresh(Layer.merge(SandboxStorePostgres.layer, MaintenancePostgres.layer)).pipe(
            Layer.provide(Layer.succeed(Policy, limits)),
            Layer.provide(Layer.succeedContext(services))
          )
        ),
      revoke: (grantId) => Effect.orDie(Effect.asVoid(sql`UPDATE grants SET revoked_at = now() WHERE id = ${grantId}`))
    })
  })
)

/** A fresh database, whose callers wait as long as the machine is busy. */
export const database = () => Layer.merge(TestPostgres.layer(Migrations.layer), Layer.succeed(AnswerMillis, Duration.toMillis("5 minutes")))

/** Those that are over the same rows, on whichever database. */
export const storesOver = Layer.mergeAll(SandboxStorePostgres.layer, LeasesPostgres.layer, MaintenancePostgres.layer, Fixture).pipe(
  Layer.provideMerge(Access.layer),
  Layer.provideMerge(AccessStorePostgres.layer)
)

/** All, on a database of their own. */
export const stores = <A, E>(checkpoints: Layer.Layer<A | Checkpoints, E, SqlClient.SqlClient>) =>
  Layer.mergeAll(
    storesOver,
    SandboxDashboardPostgres.layer,
    SetupsPostgres.layer,
    FeedbackWatchesPostgres.layer,
    ArtifactStorePostgres.layer,
    PromptFilesPostgres.layer,
    WorkersPostgres.layer,
    checkpoints
  ).pipe(
    Layer.provideMerge(Layer.mergeAll(HintsPostgres.layer, IdsNode.layer)),
    Layer.provideMerge(database())
  )
