/** A worker's endpoint and a process that reaches for it, on one database. */
import { AgentDisconnected, RemoteTrees } from "@slipway/domain/files/ports/RemoteTrees"
import { FileNotFound, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { BoxNotRunning } from "@slipway/domain/sandbox/ports/BoxConnection"
import { LocalBoxPorts } from "@slipway/domain/sandbox/ports/BoxPorts"
import { SandboxStore } from "@slipway/domain/sandbox/ports/SandboxStore"
import { initial, type Sandbox } from "@slipway/domain/sandbox/rules/Sandbox"
import * as TestPostgres from "@slipway/embedded-postgres/testing/TestPostgres"
import * as Database from "@slipway/postgres/Database"
import * as Migrations from "@slipway/postgres/Migrations"
import { AnswerMillis } from "@slipway/postgres/sql/SqlFailure"
import { DateTime, Effect, Layer, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import * as LinkAddresses from "../src/LinkAddresses.ts"
import type { TimeLimits } from "../src/LinkRequest.ts"
import * as RemoteTreesLink from "../src/RemoteTreesLink.ts"
import * as TreeServer from "../src/TreeServer.ts"

export const WORKER = "worker-1"
export const MACHINE = "machine-1"

/** A migrated database without the rows a sandbox would have to refer to. */
export const database = Layer.unwrap(
  Effect.map(
    TestPostgres.database(Migrations.layer),
    (url) =>
      Layer.effectDiscard(Effect.flatMap(SqlClient.SqlClient, (sql) => sql`ALTER TABLE sandboxes DROP CONSTRAINT sandboxes_grant_id_fkey`))
        .pipe(
          Layer.provideMerge(Database.layer({ url: Redacted.make(url) })),
          // A busy machine is no silent database.
          Layer.provideMerge(Layer.succeed(AnswerMillis, 300_000))
        )
  )
)

export const GRANT = "00000000-0000-4000-8000-000000000000"

export const sandboxOf = (id: SandboxId, more: Partial<Sandbox> = {}): Sandbox => ({
  ...initial({
    id,
    grantId: GRANT,
    createdBy: "x",
    createdAt: DateTime.makeUnsafe(0),
    title: "x",
    repos: [{ fullName: "acme/app" }],
    prompt: "x",
    model: "x",
    agentRuntime: "opencode",
    reasoningEffort: null,
    toolApprovalMode: "auto",
    metadata: {},
    origin: null,
    continues: null
  }),
  status: "running",
  ...more
})

/** The sandbox runs, and the worker holds its lease for a minute. */
export const lease = Effect.fnUntraced(function*(id: SandboxId, worker = WORKER) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO sandboxes (
      id, grant_id, created_by, created_at, title, repos, repo_names, prompt, model, agent_runtime, tool_approval_mode, metadata,
      status, initiator, status_at, approvals, publications, usage, revision, last_seq, worker, machine, lease_until
    ) VALUES (
      ${id}, gen_random_uuid(), 'x', now(), 'x', '[]', '{}', 'x', 'x', 'x', 'x', '{}',
      'running', 'x', now(), '[]', '[]', '{}', 1, 1, ${worker}, ${MACHINE}, now() + interval '1 minute'
    )
    ON CONFLICT (id) DO UPDATE SET worker = excluded.worker, machine = excluded.machine, lease_until = excluded.lease_until`
})

/** A worker without boxes. */
export const noBoxes = Layer.succeed(LocalBoxPorts, { connect: () => new BoxNotRunning() })

export const server = (worker = WORKER, machine = MACHINE, boxes: Layer.Layer<LocalBoxPorts> = noBoxes) =>
  TreeServer.layer({ worker, machine, listen: { host: "127.0.0.1", port: 0 } }).pipe(Layer.provide(boxes))

/** The services of a worker's endpoint beside its trees. */
export const beside = (stored: Partial<Sandbox> = {}) =>
  Layer.mock(SandboxStore, { find: ({ grantId, id }) => Effect.succeed(sandboxOf(id, { grantId, ...stored })) })

export const client = (limits: Partial<TimeLimits> = {}) => RemoteTreesLink.layer({ own: null, limits })

/** Where the worker says it is. */
export const addressOf = Effect.fnUntraced(function*(id: SandboxId) {
  const links = yield* LinkAddresses.make
  const holder = yield* Effect.flatMap(links.holder(id), Effect.fromOption)
  return holder.address ?? ""
})

/** Trees that are read over the link, and otherwise used directly: what the port's contract needs. */
export const overTheLink = Layer.effect(
  WorkingTrees,
  Effect.gen(function*() {
    const trees = yield* WorkingTrees
    const { reach } = yield* RemoteTrees
    const context = yield* Effect.context<SqlClient.SqlClient>()
    const reader = (id: SandboxId) => Effect.andThen(Effect.provide(Effect.orDie(lease(id)), context), Effect.orDie(reach(sandboxOf(id))))
    // A worker without a tree of the sandbox is not its worker. Other errors of the link are not the port's.
    const local = (id: SandboxId) => <A, E, R>(self: Effect.Effect<A, E | AgentDisconnected, R>) =>
      Effect.catchIf(
        self,
        (error): error is Extract<E | AgentDisconnected, AgentDisconnected> => error instanceof AgentDisconnected,
        (error) => Effect.flatMap(trees.has(id), (isHere) => isHere ? Effect.die(error) : Effect.fail(new FileNotFound()))
      )
    return WorkingTrees.of({
      ...trees,
      list: (key, path) => Effect.flatMap(reader(key.sandboxId), ({ list }) => list(key, path)).pipe(local(key.sandboxId)),
      changes: (key) => Effect.flatMap(reader(key.sandboxId), ({ changes }) => changes(key)).pipe(local(key.sandboxId)),
      search: (key, asked) => Effect.flatMap(reader(key.sandboxId), ({ search }) => search(key, asked)).pipe(local(key.sandboxId)),
      open: (key, path, maximum) =>
        Effect.flatMap(reader(key.sandboxId), ({ open }) => open(key, path, maximum)).pipe(local(key.sandboxId)),
      compare: (key, path, maximum) =>
        Effect.flatMap(reader(key.sandboxId), ({ compare }) => compare(key, path, maximum)).pipe(local(key.sandboxId)),
      diff: (key, asked) =>
        Effect.flatMap(reader(key.sandboxId), ({ diff }) => diff(key, asked)).pipe(
          Effect.catchTag("CheckpointNotFound", Effect.die),
          local(key.sandboxId)
        )
    })
  })
)
